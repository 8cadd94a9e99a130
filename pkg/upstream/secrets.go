package upstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
)

// ErrNoSecret says that a header refers to a secret that does not exist.
var ErrNoSecret = errors.New("no such secret")

// EnvSecrets are the secrets of the environment: it answers "env:NAME" and
// knows no other kind.
type EnvSecrets struct {
	Lookup func(name string) (string, bool) // nil: os.LookupEnv
}

// Secret returns the variable that ref names. An empty one counts as missing:
// an empty credential is never what the operator meant.
func (s EnvSecrets) Secret(_ context.Context, ref string) (string, error) {
	name, ok := strings.CutPrefix(ref, "env:")
	if !ok {
		return "", fmt.Errorf("secret %q: only env references are known here: %w", ref, ErrNoSecret)
	}
	lookup := s.Lookup
	if lookup == nil {
		lookup = os.LookupEnv
	}
	v, _ := lookup(name)
	if v == "" {
		return "", fmt.Errorf("environment variable %q is not set: %w", name, ErrNoSecret)
	}
	return v, nil
}

// A vault remembers secrets, so that they are looked up once and not with
// every request.
type vault struct {
	from Secrets

	mu    sync.Mutex
	known map[string]string
}

// get returns the secret that ref names, from memory if it was had before.
func (v *vault) get(ctx context.Context, ref string) (string, error) {
	v.mu.Lock()
	s, ok := v.known[ref]
	v.mu.Unlock()
	if ok {
		return s, nil
	}
	return v.look(ctx, ref)
}

// look asks for the secret again.
func (v *vault) look(ctx context.Context, ref string) (string, error) {
	s, err := v.from.Secret(ctx, ref)
	if err != nil {
		return "", err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil {
		v.known = map[string]string{}
	}
	v.known[ref] = s
	return s, nil
}
