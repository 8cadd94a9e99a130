package token

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// Find returns the token with this text, made under any accepted key, or an error that wraps
// [ErrNotFound] if there is none. Any other error means that the answer is unknown at the moment.
// Find does not check whether the token is live.
//
// If no token is found under the known keys, it may be under a newer key, so Find reads the keys
// again. If that fails, the error does not wrap ErrNotFound.
func (r *KeyRing) Find(ctx context.Context, s *Store, text secret.Text, now time.Time) (Token, error) {
	keys, err := r.Keys(ctx)
	if err != nil {
		return Token{}, err
	}
	t, err := keys.find(ctx, s, text, now)
	if !errors.Is(err, ErrNotFound) {
		return t, err
	}
	newest, err := r.Newest(ctx)
	if err != nil {
		return Token{}, err
	}
	if !newest.same(keys) {
		if t, err := newest.find(ctx, s, text, now); !errors.Is(err, ErrNotFound) {
			return t, err
		}
	}
	if err := r.Err(); err != nil {
		return Token{}, fmt.Errorf("the key of agent tokens may be a newer one, which cannot be read: %w", err)
	}
	return Token{}, ErrNotFound
}

// find searches for the token under each accepted key.
func (k Keys) find(ctx context.Context, s *Store, text secret.Text, now time.Time) (Token, error) {
	t, err := k.Current.find(ctx, s, text)
	if errors.Is(err, ErrNotFound) && k.PreviousTaken(now) {
		return k.Previous.find(ctx, s, text)
	}
	return t, err
}

func (k Key) find(ctx context.Context, s *Store, text secret.Text) (Token, error) {
	id, hash := k.Identify(text)
	t, err := s.Token(ctx, id)
	if err == nil && !SameHash(t.Hash, hash) {
		return Token{}, fmt.Errorf("token %s has another hash: %w", id, ErrNotFound)
	}
	return t, err
}

func (k Keys) same(other Keys) bool {
	return k.Current.Equal(other.Current.Text) && k.Previous.Equal(other.Previous.Text)
}
