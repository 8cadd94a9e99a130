package boot

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

	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

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
		return s.parameter(ctx, name)
	case "secretsmanager":
		return s.secret(ctx, name)
	}
	return s.env.Secret(ctx, ref)
}

func (s secrets) parameter(ctx context.Context, name string) (string, error) {
	out, err := s.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: &name, WithDecryption: aws.Bool(true)})
	if _, missing := errors.AsType[*ssmtypes.ParameterNotFound](err); missing {
		return "", fmt.Errorf("parameter %q: %w", name, upstream.ErrNoSecret)
	}
	if err != nil {
		return "", fmt.Errorf("parameter %q: %w", name, err)
	}
	return aws.ToString(out.Parameter.Value), nil
}

func (s secrets) secret(ctx context.Context, name string) (string, error) {
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

// lookupEnv hides the function's own credentials: a config must not be able to
// send them to a server.
func lookupEnv(name string) (string, bool) {
	if strings.HasPrefix(name, "AWS_") {
		return "", false
	}
	return os.LookupEnv(name)
}
