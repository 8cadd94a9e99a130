package boot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"github.com/portcullis-mcp/portcullis/pkg/secret"
	secretaws "github.com/portcullis-mcp/portcullis/pkg/secret/aws"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	s3store "github.com/portcullis-mcp/portcullis/pkg/store/s3"
)

// An AWS holds the clients of a deployed function.
type AWS struct {
	Stores  Stores
	Secrets secret.Source
	Config  aws.Config
}

// NewAWS builds the clients. It makes no call but what finding credentials
// takes. Bucket and table must be set.
func NewAWS(ctx context.Context, s Settings, log *slog.Logger) (AWS, error) {
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
	c, err := awsConfig(ctx, log)
	if err != nil {
		return AWS{}, err
	}
	return AWS{
		Stores: Stores{
			Objects:   s3store.New(newS3(c), s.Bucket),
			Approvals: dynamo.New(dynamodb.NewFromConfig(c), s.Table, &dynamo.Options{KeepAudit: s.KeepAudit}),
			Tokens:    dynamo.NewTokens(dynamodb.NewFromConfig(c), s.Table),
			Sessions:  dynamo.NewSessions(dynamodb.NewFromConfig(c), s.Table, nil),
		},
		Secrets: secretaws.New(c),
		Config:  c,
	}, nil
}

// Bucket returns the named bucket as a store, for programs that need no more than that.
func Bucket(ctx context.Context, name string) (*s3store.Store, error) {
	c, err := awsConfig(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return s3store.New(newS3(c), name), nil
}

func newS3(c aws.Config) *s3.Client {
	return s3.NewFromConfig(c, func(o *s3.Options) {
		o.UsePathStyle = o.BaseEndpoint != nil // an emulator has no name of its own for each bucket
		o.DisableLogOutputChecksumValidationSkipped = true
		// The SDK waits up to 20 s before it asks again, a request has two for this.
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) { r.MaxBackoff = 250 * time.Millisecond })
	})
}

func awsConfig(ctx context.Context, log *slog.Logger) (aws.Config, error) {
	c, err := config.LoadDefaultConfig(ctx, config.WithLogger(sdkLog{log}))
	if err != nil {
		return c, fmt.Errorf("aws config: %w", err)
	}
	return c, nil
}

// sdkLog takes what the SDK says on its own account, which would be plain text
// among lines of JSON.
type sdkLog struct{ log *slog.Logger }

// Logf implements [logging.Logger].
func (l sdkLog) Logf(c logging.Classification, format string, v ...any) {
	level := slog.LevelDebug
	if c == logging.Warn {
		level = slog.LevelWarn
	}
	l.log.LogAttrs(context.Background(), level, "aws sdk", slog.String("said", fmt.Sprintf(format, v...)))
}
