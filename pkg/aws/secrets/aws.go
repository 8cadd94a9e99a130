// Package secrets looks up secrets in AWS Secrets Manager and the SSM parameter store.
package secrets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	secretstypes "github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// A Source answers ssm: and secretsmanager: references, and leaves env: to the environment. It
// keeps nothing: the upstream client does, until a server says 401.
type Source struct {
	ssm     *ssm.Client
	secrets *secretsmanager.Client
	env     secret.Env
}

var _ secret.Versioned = (*Source)(nil)

// New returns a Source. It makes no call.
func New(c aws.Config) *Source {
	return &Source{ssm.NewFromConfig(c), secretsmanager.NewFromConfig(c), secret.Env{Lookup: lookupEnv}}
}

// Secret implements [secret.Source].
func (s *Source) Secret(ctx context.Context, ref string) (string, error) {
	kind, name, _ := strings.Cut(ref, ":")
	switch kind {
	case "ssm":
		v, _, err := s.parameter(ctx, name)
		return v.Text.Reveal(), err
	case "secretsmanager":
		v, err := s.version(ctx, name, "AWSCURRENT")
		return v.Text.Reveal(), err
	}
	return s.env.Secret(ctx, ref)
}

// Versions implements [secret.Versioned]. Secrets Manager keeps the value that a secret had before
// under the stage AWSPREVIOUS, and the parameter store each version of a parameter under its number.
// The current one is read first: a value that takes its place before the other is read moves it
// there, where it is found.
func (s *Source) Versions(ctx context.Context, ref string) (v secret.Versions, err error) {
	before := func() (secret.Version, error) { return secret.Version{}, secret.ErrNotFound }
	switch kind, name, _ := strings.Cut(ref, ":"); kind {
	case "secretsmanager":
		v.Current, err = s.version(ctx, name, "AWSCURRENT")
		before = func() (secret.Version, error) { return s.version(ctx, name, "AWSPREVIOUS") }
	case "ssm":
		var number int64
		v.Current, number, err = s.parameter(ctx, name)
		if number > 1 {
			before = func() (secret.Version, error) {
				old, _, err := s.parameter(ctx, name+":"+strconv.FormatInt(number-1, 10))
				return old, err
			}
		}
	default:
		var text string
		text, err = s.env.Secret(ctx, ref)
		v.Current.Text = secret.New(text)
	}
	if err != nil {
		return secret.Versions{}, err
	}
	if v.Previous, err = before(); errors.Is(err, secret.ErrNotFound) { // it was never replaced
		return secret.Versions{Current: v.Current}, nil
	}
	return v, err
}

// version returns the text of a secret at a stage.
func (s *Source) version(ctx context.Context, name, stage string) (secret.Version, error) {
	out, err := s.secrets.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &name, VersionStage: &stage})
	if err != nil {
		_, missing := errors.AsType[*secretstypes.ResourceNotFoundException](err)
		return secret.Version{}, failed("secret", name, missing, err)
	}
	if out.SecretString == nil {
		return secret.Version{}, fmt.Errorf("secret %q holds bytes, not text: %w", name, secret.ErrNotFound)
	}
	return secret.Version{Text: secret.New(*out.SecretString), Since: aws.ToTime(out.CreatedDate)}, nil
}

// parameter returns a parameter and the number of its version.
func (s *Source) parameter(ctx context.Context, name string) (secret.Version, int64, error) {
	out, err := s.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: &name, WithDecryption: aws.Bool(true)})
	if err != nil {
		_, missing := errors.AsType[*ssmtypes.ParameterNotFound](err)
		_, gone := errors.AsType[*ssmtypes.ParameterVersionNotFound](err)
		return secret.Version{}, 0, failed("parameter", name, missing || gone, err)
	}
	p := out.Parameter
	return secret.Version{Text: secret.New(aws.ToString(p.Value)), Since: aws.ToTime(p.LastModifiedDate)}, p.Version, nil
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
