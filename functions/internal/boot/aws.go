package boot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	secretstypes "github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/portcullis-mcp/portcullis/pkg/approval/dynamo"
	s3store "github.com/portcullis-mcp/portcullis/pkg/object/s3"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// An AWS holds the clients of a deployed function.
type AWS struct {
	Stores  Stores
	Secrets upstream.Secrets
	Lambda  *lambda.Client
}

// NewAWS builds the clients. It makes no call but what finding credentials
// takes. Bucket and table must be set.
func NewAWS(ctx context.Context, s Settings) (AWS, error) {
	var faults []error
	if s.Bucket == "" {
		faults = append(faults, errors.New("PORTCULLIS_BUCKET is not set: the S3 bucket of config, policy and catalog"))
	}
	if s.Table == "" {
		faults = append(faults, errors.New("PORTCULLIS_TABLE is not set: the DynamoDB table of the approvals"))
	}
	if err := errors.Join(faults...); err != nil {
		return AWS{}, err
	}
	c, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return AWS{}, fmt.Errorf("aws config: %w", err)
	}
	objects := s3.NewFromConfig(c, func(o *s3.Options) {
		o.UsePathStyle = c.BaseEndpoint != nil // an emulator has no name of its own for each bucket
	})
	return AWS{
		Stores: Stores{
			Objects:   s3store.New(objects, s.Bucket),
			Approvals: dynamo.New(dynamodb.NewFromConfig(c), s.Table, nil),
		},
		Secrets: secrets{ssm.NewFromConfig(c), secretsmanager.NewFromConfig(c), upstream.EnvSecrets{}},
		Lambda:  lambda.NewFromConfig(c),
	}, nil
}

// secrets answers ${ssm:…} and ${secretsmanager:…}, and leaves the rest to the
// environment. It keeps nothing: the upstream client does, until a server says 401.
type secrets struct {
	ssm *ssm.Client
	sm  *secretsmanager.Client
	env upstream.EnvSecrets
}

// Secret implements [upstream.Secrets].
func (s secrets) Secret(ctx context.Context, ref string) (string, error) {
	kind, name, _ := strings.Cut(ref, ":")
	switch kind {
	case "ssm":
		out, err := s.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: &name, WithDecryption: aws.Bool(true)})
		if _, missing := errors.AsType[*ssmtypes.ParameterNotFound](err); missing {
			return "", fmt.Errorf("parameter %q: %w", name, upstream.ErrNoSecret)
		}
		if err != nil {
			return "", fmt.Errorf("parameter %q: %w", name, err)
		}
		return aws.ToString(out.Parameter.Value), nil
	case "secretsmanager":
		out, err := s.sm.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &name})
		if _, missing := errors.AsType[*secretstypes.ResourceNotFoundException](err); missing {
			return "", fmt.Errorf("secret %q: %w", name, upstream.ErrNoSecret)
		}
		if err != nil {
			return "", fmt.Errorf("secret %q: %w", name, err)
		}
		if out.SecretString == nil {
			return "", fmt.Errorf("secret %q holds bytes, not text: %w", name, upstream.ErrNoSecret)
		}
		return *out.SecretString, nil
	}
	return s.env.Secret(ctx, ref)
}

// Warm loads what the first request will read and opens the connections, side
// by side: starting is the one time at which a function has a whole processor.
// What cannot be read is not fatal; requests say so and try again.
func (p *Program) Warm(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { p.States.Load(ctx) })
	wg.Go(func() {
		// There is no such server. The answer does not matter, the open connection does.
		_, _ = p.Stores.Approvals.Baseline(ctx, "-")
	})
	wg.Wait()
}
