package token

import (
	"context"
	"log/slog"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// Keys are the keys that a gateway takes tokens under.
type Keys struct {
	Current  Key       // new tokens are made under it
	Previous Key       // that it replaced; zero: none
	Since    time.Time // when it did; zero: not known
	Until    time.Time // from when on tokens under Previous let nobody in; zero: as long as it is there

	previousSince time.Time // when Previous became the current one; zero: not known
}

// ReadKeys returns the keys of a secret that is replaced now and then. Tokens under the one before
// are taken for so many days after that, at most as many as a token lives.
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

// PreviousTaken reports whether tokens under the previous key let somebody in at the given time.
func (k Keys) PreviousTaken(now time.Time) bool {
	return k.Previous.Reveal() != "" && (k.Until.IsZero() || now.Before(k.Until))
}

const (
	// keysEvery is after how long a process reads its keys again: so long one that was withdrawn may
	// go on, and so long one that was replaced is not missed.
	keysEvery = 10 * time.Minute

	// keysSoon is after how long a token that is under no known key has them read again: it may be
	// under a new one.
	keysSoon = 5 * time.Second
)

// A KeyRing holds the keys of a gateway as they are now: they are read again every ten minutes, and
// within seconds if a token is under none of them. It is safe for concurrent use.
type KeyRing struct {
	held *secret.Refreshable[Keys]
}

// NewKeyRing returns a KeyRing of what read returns. It makes no call. It says in the log which
// keys come into use. A nil now is time.Now, a nil log none.
func NewKeyRing(read func(context.Context) (Keys, error), now func() time.Time, log *slog.Logger) *KeyRing {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	last := "" // read is not called twice at once
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

// OneKey returns a KeyRing of a key that is never replaced.
func OneKey(k Key) *KeyRing {
	return NewKeyRing(func(context.Context) (Keys, error) { return Keys{Current: k}, nil }, nil, nil)
}

// Keys returns the keys. An error says that none was ever read.
func (r *KeyRing) Keys(ctx context.Context) (Keys, error) { return r.held.Get(ctx, keysEvery) }

// Newest returns the keys as they were a few seconds ago at the earliest, or the ones before if they
// cannot be read now, which Err says.
func (r *KeyRing) Newest(ctx context.Context) (Keys, error) { return r.held.Fresh(ctx, keysSoon) }

// Err returns why the keys could not be read when that was last tried; nil: they could.
func (r *KeyRing) Err() error { return r.held.Err() }
