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
	smithytime "github.com/aws/smithy-go/time"

	"github.com/portcullis-mcp/portcullis/pkg/aws/awsjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// A Source resolves references that start with ssm:, secretsmanager: or env:. It caches nothing,
// because the upstream client caches secrets until a server answers 401.
type Source struct {
	ssm     *awsjson.Client
	secrets *awsjson.Client
	env     secret.Env
}

var _ secret.Versioned = (*Source)(nil)

// New returns a Source.
func New(c aws.Config) *Source {
	env := secret.Env{Lookup: lookupEnv}
	return &Source{awsjson.New(c, "ssm"), awsjson.New(c, "secretsmanager"), env}
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

// Versions implements [secret.Versioned]. Secrets Manager has a secret's previous value under the
// stage AWSPREVIOUS, and the parameter store has each version of a parameter under its number.
// Versions reads the current value first. If that value is replaced before the second read, Secrets
// Manager returns the same value again as the previous one. The parameter store returns the version
// before the version that was read first.
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
	// The secret was never replaced, or is in the environment.
	if v.Previous, err = before(); errors.Is(err, secret.ErrNotFound) {
		return secret.Versions{Current: v.Current}, nil
	}
	return v, err
}

// version returns the version of a secret that has this stage.
func (s *Source) version(ctx context.Context, name, stage string) (v secret.Version, err error) {
	var out struct {
		SecretString *string
		CreatedDate  float64
	}
	in := map[string]any{"SecretId": name, "VersionStage": stage}
	err = s.secrets.Call(ctx, "secretsmanager.GetSecretValue", in, &out)
	switch {
	case awsjson.HasCode(err, "ResourceNotFoundException"):
		err = secret.ErrNotFound
	case err == nil && out.SecretString == nil:
		return v, fmt.Errorf("secret %q holds bytes, not text: %w", name, secret.ErrNotFound)
	}
	if err != nil {
		return v, fmt.Errorf("secret %q: %w", name, err)
	}
	return newVersion(*out.SecretString, out.CreatedDate), nil
}

// parameter returns a parameter and the number of its version.
func (s *Source) parameter(ctx context.Context, name string) (secret.Version, int64, error) {
	var out struct {
		Parameter struct {
			Value            string
			LastModifiedDate float64
			Version          int64
		}
	}
	in := map[string]any{"Name": name, "WithDecryption": true}
	err := s.ssm.Call(ctx, "AmazonSSM.GetParameter", in, &out)
	if awsjson.HasCode(err, "ParameterNotFound", "ParameterVersionNotFound") {
		err = secret.ErrNotFound
	}
	if err != nil {
		return secret.Version{}, 0, fmt.Errorf("parameter %q: %w", name, err)
	}
	p := out.Parameter
	return newVersion(p.Value, p.LastModifiedDate), p.Version, nil
}

// newVersion returns a version with this text. since is the Unix time, in seconds, at which the
// version was set.
func newVersion(text string, since float64) secret.Version {
	return secret.Version{Text: secret.New(text), Since: smithytime.ParseEpochSeconds(since)}
}

// lookupEnv hides variables such as AWS_SECRET_ACCESS_KEY, the credentials of the Lambda function,
// so that a config cannot send them to a server.
func lookupEnv(name string) (string, bool) {
	if strings.HasPrefix(name, "AWS_") {
		return "", false
	}
	return os.LookupEnv(name)
}
