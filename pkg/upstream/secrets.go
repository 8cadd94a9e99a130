package upstream

import (
	"context"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/secret"
)

// A vault remembers secrets, so that they are looked up once and not with
// every request.
type vault struct {
	from secret.Source

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
