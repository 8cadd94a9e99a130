package boot

import (
	"context"
	"fmt"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// sealKeySetting is the setting with the key that seals clients' sessions.
const sealKeySetting = "PORTCULLIS_SEAL_KEY"

// keyTime is the time limit for reading a key, because a request may wait for the key.
const keyTime = 5 * time.Second

// newSealer returns the sealer of the texts that clients keep for the gateway. It returns nil if
// the settings name no key. Without a sealer, clients of the handshake protocol get no session ids,
// and the gateway refuses features that need sealed state.
//
// The sealer reads the key at its first use and not at the start, because most processes of a
// gateway with stateless clients never need the key. While the key cannot be read, a new client
// gets no session id, and the log has the reason. A client with a session id gets 503, because 404
// would mean that its session has ended.
//
// The sealer also opens texts that were sealed with the previous key, so a new key does not end
// sessions immediately. The previous key is the previous version of a referenced secret, or the key
// after the comma in the setting.
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

// readVersions returns the values of a secret that a setting refers to or contains. split separates
// values in the setting.
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

// sealKey reads the setting. It checks a key that is in the setting itself.
func (r *reader) sealKey() secret.Text {
	text := r.getenv(sealKeySetting)
	if _, referred := secret.Reference(text); text != "" && !referred {
		if v, replaced := secret.SplitVersions(text); len(v.Current.Text.Reveal()) < seal.MinKey || replaced && len(v.Previous.Text.Reveal()) < seal.MinKey {
			r.fault("%s: want %d random bytes or more, such as `openssl rand -hex 32` prints, "+
				"and after a comma the previous key", sealKeySetting, seal.MinKey)
		}
	}
	return secret.New(text)
}
