package boot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/seal"
	"github.com/portcullis-mcp/portcullis/pkg/secret"
)

// sealKeySetting holds what clients' sessions are sealed with.
const sealKeySetting = "PORTCULLIS_SEAL_KEY"

// sealKeyTime bounds one read of the key, which a request waits for.
const sealKeyTime = 5 * time.Second

// newSealer returns what seals the texts that clients keep for the gateway, nil if the settings
// name no key: then clients of the handshake era get no session ids, and what needs sealed state
// is refused.
//
// The key is read when it is first needed and not at the start, which most processes of a gateway
// with stateless clients would pay for nothing. While it cannot be read, a client that begins is
// served without a session id, as one that keeps none, and the log says why; one that has an id is
// answered 503, since 404 would say that its session has ended, which nobody knows.
//
// With a reference the source's previous version opens as well, and with a key in clear the one
// after a comma: so a key that is replaced ends no session at once.
func newSealer(key secret.Text, source secret.Source) *seal.Sealer {
	if key.Reveal() == "" {
		return nil
	}
	ref, referred := secret.Reference(key.Reveal())
	if !referred {
		keys := sealKeys(key.Reveal())
		return seal.New(func(context.Context) (seal.Keys, error) { return keys, nil })
	}
	return seal.New(func(ctx context.Context) (seal.Keys, error) {
		ctx, cancel := context.WithTimeout(ctx, sealKeyTime)
		defer cancel()
		keys, err := readSealKeys(ctx, source, ref)
		if err != nil {
			return seal.Keys{}, fmt.Errorf("%s: %w", sealKeySetting, err)
		}
		return keys, nil
	})
}

// A versioned source keeps the value that a secret had before it was replaced.
type versioned interface {
	// Previous is [secret.Source]'s Secret for the version before.
	Previous(ctx context.Context, ref string) (string, error)
}

// readSealKeys reads both versions of a key, side by side.
func readSealKeys(ctx context.Context, source secret.Source, ref string) (seal.Keys, error) {
	var keys seal.Keys
	before := make(chan error, 1)
	go func() {
		v, ok := source.(versioned)
		if !ok {
			before <- nil
			return
		}
		text, err := v.Previous(ctx, ref)
		if errors.Is(err, secret.ErrNotFound) { // it was never replaced
			before <- nil
			return
		}
		keys.Previous = []byte(text)
		before <- err
	}()
	text, err := source.Secret(ctx, ref)
	err = errors.Join(err, <-before)
	keys.Current = []byte(text)
	return keys, err
}

// sealKeys returns the keys that stand in a setting: the current one and, after a comma, the one
// before.
func sealKeys(text string) seal.Keys {
	current, previous, replaced := strings.Cut(text, ",")
	keys := seal.Keys{Current: []byte(current)}
	if replaced {
		keys.Previous = []byte(previous)
	}
	return keys
}

// sealKey reads the setting. A key in clear is checked at the start.
func (r *reader) sealKey() secret.Text {
	text := r.getenv(sealKeySetting)
	if _, referred := secret.Reference(text); text != "" && !referred {
		if keys := sealKeys(text); len(keys.Current) < seal.MinKey || keys.Previous != nil && len(keys.Previous) < seal.MinKey {
			r.fault("%s: want %d random bytes or more, such as `openssl rand -hex 32` prints, and after a comma the ones before", sealKeySetting, seal.MinKey)
		}
	}
	return secret.New(text)
}
