package bolt

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/token"
)

var _ token.Store = (*Store)(nil)

// More buckets of the file. When a token was last used lies apart, so that noting
// it never collides with a revocation.
var (
	tokens    = []byte("tokens")     // id → token.Token
	tokenUses = []byte("token_uses") // id → time.Time as text
)

// Token implements [token.Store].
func (s *Store) Token(ctx context.Context, id string) (t token.Token, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		t, err = getToken(tx, []byte(id))
		return err
	})
	if err != nil {
		return token.Token{}, fmt.Errorf("get token %q: %w", id, err)
	}
	return t, nil
}

// PutToken implements [token.Store].
func (s *Store) PutToken(ctx context.Context, t token.Token) (token.Token, error) {
	if err := cmp.Or(ctx.Err(), t.Check()); err != nil {
		return token.Token{}, fmt.Errorf("put token %q: %w", t.ID, err)
	}
	next := t.Next()
	next.LastUsed = time.Time{} // it has a bucket of its own
	data, err := rawjson.Marshal(next, next.Unknown)
	if err != nil {
		return token.Token{}, fmt.Errorf("put token %q: %w", t.ID, err)
	}
	next.LastUsed = t.LastUsed
	err = s.update(func(tx *bbolt.Tx) error {
		var held token.Token
		if tx.Bucket(tokens).Get([]byte(t.ID)) != nil {
			if held, err = getToken(tx, []byte(t.ID)); err != nil {
				return err
			}
		}
		if held.Rev != t.Rev {
			return token.ErrConflict
		}
		return tx.Bucket(tokens).Put([]byte(t.ID), data)
	})
	if err != nil {
		return token.Token{}, fmt.Errorf("put token %q: %w", t.ID, err)
	}
	return next, nil
}

// TouchToken implements [token.Store].
func (s *Store) TouchToken(ctx context.Context, id string, at time.Time) error {
	data, err := at.UTC().MarshalText()
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return fmt.Errorf("touch token %q: %w", id, err)
	}
	err = s.update(func(tx *bbolt.Tx) error {
		if tx.Bucket(tokens).Get([]byte(id)) == nil {
			return token.ErrNotFound
		}
		return tx.Bucket(tokenUses).Put([]byte(id), data)
	})
	if err != nil {
		return fmt.Errorf("touch token %q: %w", id, err)
	}
	return nil
}

// Tokens implements [token.Store].
func (s *Store) Tokens(ctx context.Context) (all []token.Token, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		return tx.Bucket(tokens).ForEach(func(id, _ []byte) error {
			t, err := getToken(tx, id)
			all = append(all, t)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	return all, nil
}

// getToken returns the token with the id, or [token.ErrNotFound].
func getToken(tx *bbolt.Tx, id []byte) (t token.Token, err error) {
	data := tx.Bucket(tokens).Get(id)
	if data == nil {
		return t, token.ErrNotFound
	}
	if t.Unknown, err = rawjson.Unmarshal(data, &t); err != nil {
		return token.Token{}, err
	}
	if used := tx.Bucket(tokenUses).Get(id); used != nil {
		if err := t.LastUsed.UnmarshalText(used); err != nil {
			return token.Token{}, err
		}
	}
	return t, nil
}
