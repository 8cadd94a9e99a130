// Package aws looks up secrets in AWS Secrets Manager and the SSM parameter store.
package aws

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	secretstypes "github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/portcullis-mcp/portcullis/pkg/secret"
)

// A Source answers ssm: and secretsmanager: references, and leaves env: to the environment. It
// keeps nothing: the upstream client does, until a server says 401.
type Source struct {
	ssm     *ssm.Client
	secrets *secretsmanager.Client
	env     secret.Env
}

// New returns a Source. It makes no call.
func New(c aws.Config) *Source {
	return &Source{ssm.NewFromConfig(c), secretsmanager.NewFromConfig(c), secret.Env{Lookup: lookupEnv}}
}

// Secret implements [secret.Source].
func (s *Source) Secret(ctx context.Context, ref string) (string, error) {
	kind, name, _ := strings.Cut(ref, ":")
	switch kind {
	case "ssm":
		out, err := s.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: &name, WithDecryption: aws.Bool(true)})
		if err != nil {
			_, missing := errors.AsType[*ssmtypes.ParameterNotFound](err)
			return "", failed("parameter", name, missing, err)
		}
		return aws.ToString(out.Parameter.Value), nil
	case "secretsmanager":
		return s.version(ctx, name, "AWSCURRENT")
	}
	return s.env.Secret(ctx, ref)
}

// Previous returns the value that a secret of Secrets Manager had before it was last replaced. It
// returns an error that wraps [secret.ErrNotFound] if it never was, and for every other kind of
// reference.
func (s *Source) Previous(ctx context.Context, ref string) (string, error) {
	name, ok := strings.CutPrefix(ref, "secretsmanager:")
	if !ok {
		return "", fmt.Errorf("no earlier version of %q is known: %w", ref, secret.ErrNotFound)
	}
	return s.version(ctx, name, "AWSPREVIOUS")
}

// version returns the text of a secret at a stage.
func (s *Source) version(ctx context.Context, name, stage string) (string, error) {
	out, err := s.secrets.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &name, VersionStage: &stage})
	if err != nil {
		_, missing := errors.AsType[*secretstypes.ResourceNotFoundException](err)
		return "", failed("secret", name, missing, err)
	}
	if out.SecretString == nil {
		return "", fmt.Errorf("secret %q holds bytes, not text: %w", name, secret.ErrNotFound)
	}
	return *out.SecretString, nil
}

func failed(kind, name string, missing bool, err error) error {
	if missing {
		err = secret.ErrNotFound
	}
	return fmt.Errorf("%s %q: %w", kind, name, err)
}

// lookupEnv hides the function's own credentials: a config must not be able to
// send them to a server.
func lookupEnv(name string) (string, bool) {
	if strings.HasPrefix(name, "AWS_") {
		return "", false
	}
	return os.LookupEnv(name)
}
