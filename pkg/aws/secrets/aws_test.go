package secrets_test

import (
	"errors"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/portcullis-mcp/portcullis/pkg/aws/secrets"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// A config cannot send the function's own credentials to a server.
func TestOwnCredentialsAreHidden(t *testing.T) {
	t.Setenv("AWS_SESSION_TOKEN", "x")
	t.Setenv("MY_TOKEN", "y")
	s := secrets.New(sdk.Config{})
	if v, err := s.Secret(t.Context(), "env:AWS_SESSION_TOKEN"); !errors.Is(err, secret.ErrNotFound) || v != "" {
		t.Errorf("AWS_SESSION_TOKEN is returned: %q, %v", v, err)
	}
	if v, err := s.Secret(t.Context(), "env:MY_TOKEN"); err != nil || v != "y" {
		t.Errorf("MY_TOKEN = %q, %v", v, err)
	}
}
