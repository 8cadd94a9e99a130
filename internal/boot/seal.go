package boot

import (
	"context"
	"fmt"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// sealKeySetting holds what clients' sessions are sealed with.
const sealKeySetting = "PORTCULLIS_SEAL_KEY"

// keyTime bounds one read of a key, which a request may wait for.
const keyTime = 5 * time.Second

// newSealer returns what seals the texts that clients keep for the gateway, nil if the settings
// name no key: then clients of the handshake protocol get no session ids, and what needs sealed
// state is refused.
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
	read := func(ctx context.Context) (seal.Keys, error) {
		ctx, cancel := context.WithTimeout(ctx, keyTime)
		defer cancel()
		v, err := readVersions(ctx, source, key, splitSealKeys)
		if err != nil {
			return seal.Keys{}, fmt.Errorf("%s: %w", sealKeySetting, err)
		}
		return sealKeys(v), nil
	}
	return seal.New(read)
}

// readVersions returns the values of a secret that a setting refers to, or that it holds in clear,
// as split says.
func readVersions(ctx context.Context, source secret.Source, setting secret.Text, split func(string) secret.Versions) (secret.Versions, error) {
	if ref, referred := secret.Reference(setting.Reveal()); referred {
		return secret.ReadVersions(ctx, source, ref)
	}
	return split(setting.Reveal()), nil
}

func splitSealKeys(setting string) secret.Versions {
	v, _ := secret.SplitVersions(setting)
	return v
}

func sealKeys(v secret.Versions) seal.Keys {
	keys := seal.Keys{Current: []byte(v.Current.Text.Reveal())}
	if previous := v.Previous.Text.Reveal(); previous != "" {
		keys.Previous = []byte(previous)
	}
	return keys
}

// sealKey reads the setting. A key in clear is checked at the start.
func (r *reader) sealKey() secret.Text {
	text := r.getenv(sealKeySetting)
	if _, referred := secret.Reference(text); text != "" && !referred {
		if v, replaced := secret.SplitVersions(text); len(v.Current.Text.Reveal()) < seal.MinKey || replaced && len(v.Previous.Text.Reveal()) < seal.MinKey {
			r.fault("%s: want %d random bytes or more, such as `openssl rand -hex 32` prints, and after a comma the ones before", sealKeySetting, seal.MinKey)
		}
	}
	return secret.New(text)
}
