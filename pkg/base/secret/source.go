package secret

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// ErrNotFound is wrapped by the error of a [Source] that has no such secret.
var ErrNotFound = errors.New("no such secret")

// A Source looks up secrets.
type Source interface {
	// Secret returns the value of ref, such as "env:NAME", "ssm:/name" or "secretsmanager:name". If
	// there is no such secret, the error wraps [ErrNotFound]: a fault of the config. Any other
	// error means that the secret is unavailable now.
	Secret(ctx context.Context, ref string) (string, error)
}

// Env is the [Source] of "env:NAME". It supports no other kind.
type Env struct {
	Lookup func(name string) (string, bool) // nil: os.LookupEnv
}

// Secret returns the variable that ref names. An empty variable counts as missing: no operator
// intends an empty credential.
func (e Env) Secret(_ context.Context, ref string) (string, error) {
	name, ok := strings.CutPrefix(ref, "env:")
	if !ok {
		return "", fmt.Errorf("secret %q: only env references are known here: %w", ref, ErrNotFound)
	}
	lookup := e.Lookup
	if lookup == nil {
		lookup = os.LookupEnv
	}
	v, _ := lookup(name)
	if v == "" {
		return "", fmt.Errorf("environment variable %q is not set: %w", name, ErrNotFound)
	}
	return v, nil
}
