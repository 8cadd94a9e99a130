package token

import (
	"context"
	"log/slog"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// Keys are a gateway's accepted keys.
type Keys struct {
	Current  Key       // new tokens are made under it
	Previous Key       // the key before Current; zero: none
	Since    time.Time // when Current replaced it; zero: unknown
	Until    time.Time // end of tokens under Previous; zero: no end

	previousSince time.Time // when Previous became the current one; zero: unknown
}

// ReadKeys returns the keys of a secret that is sometimes replaced. Tokens under the previous key
// are accepted for days more days, at most as long as a token lives.
func ReadKeys(v secret.Versions, days int) (k Keys, err error) {
	if k.Current, err = NewKey(v.Current.Text.Reveal()); err != nil {
		return Keys{}, err
	}
	previous := v.Previous.Text
	if previous.Reveal() == "" || days == 0 || previous.Equal(v.Current.Text) {
		k.Since = v.Current.Since
		return k, nil
	}
	if k.Previous, err = NewKey(previous.Reveal()); err != nil {
		return Keys{}, err
	}
	if k.Since, k.previousSince = v.Replaced(), v.Previous.Since; !k.Since.IsZero() {
		k.Until = k.Since.Add(min(time.Duration(days)*24*time.Hour, MaxLife))
	}
	return k, nil
}

// PreviousTaken reports whether tokens under the previous key are accepted at the given time.
func (k Keys) PreviousTaken(now time.Time) bool {
	return k.Previous.Reveal() != "" && (k.Until.IsZero() || now.Before(k.Until))
}

const (
	// keysEvery is the interval at which a process reads its keys again. A withdrawn key may still
	// count for this long, and a process notices a replaced key within this time.
	keysEvery = 10 * time.Minute

	// keysSoon is the shortest time between two reads because of a token under no known key, which
	// may be under a new key.
	keysSoon = 5 * time.Second
)

// A KeyRing holds the present keys of a gateway: it reads them every ten minutes, and within
// seconds if a token is under none of them. It is safe for concurrent use.
type KeyRing struct {
	held *secret.Refreshable[Keys]
}

// NewKeyRing returns a KeyRing of the keys that read returns. It makes no call. It logs which keys
// come into use. A nil now is time.Now, a nil log none.
func NewKeyRing(read func(context.Context) (Keys, error), now func() time.Time, log *slog.Logger) *KeyRing {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	last := "" // read is never called twice at once
	return &KeyRing{secret.NewRefreshable(func(ctx context.Context) (Keys, error) {
		k, err := read(ctx)
		switch {
		case err != nil:
			log.LogAttrs(ctx, slog.LevelError, "keys of agent tokens not read", slog.Any("error", err))
		case last != "" && last != k.Current.ID():
			log.LogAttrs(ctx, slog.LevelInfo, "key of agent tokens replaced", slog.String("key", k.Current.ID()), slog.Time("since", k.Since),
				slog.Bool("previous_taken", k.Previous.Reveal() != ""), slog.Time("until", k.Until))
		}
		if err == nil {
			last = k.Current.ID()
		}
		return k, err
	}, now)}
}

// OneKey returns a KeyRing with a single key that is never replaced.
func OneKey(k Key) *KeyRing {
	return NewKeyRing(func(context.Context) (Keys, error) { return Keys{Current: k}, nil }, nil, nil)
}

// Keys returns the keys. It returns an error if none was ever read.
func (r *KeyRing) Keys(ctx context.Context) (Keys, error) { return r.held.Get(ctx, keysEvery) }

// Newest returns keys that were read a few seconds ago at most. If they cannot be read now, it
// returns the keys of the last successful read, and Err returns the reason.
func (r *KeyRing) Newest(ctx context.Context) (Keys, error) { return r.held.Fresh(ctx, keysSoon) }

// Err returns why the last read of the keys failed; nil: it succeeded.
func (r *KeyRing) Err() error { return r.held.Err() }
