package bolt

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/token"
)

var _ token.Store = (*Store)(nil)

// More buckets of the file.
var (
	tokens    = []byte("tokens")     // id → token.Token
	tokenUses = []byte("token_uses") // id → when it was last used, as text
)

// Token implements [token.Store].
func (s *Store) Token(ctx context.Context, id string) (t token.Token, err error) {
	defer store.Wrap(&err, "get token %q", id)
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		t, err = getToken(tx, []byte(id))
		return err
	})
	return t, err
}

// PutToken implements [token.Store].
func (s *Store) PutToken(ctx context.Context, t token.Token) (_ token.Token, err error) {
	defer store.Wrap(&err, "put token %q", t.ID)
	next, data, err := t.Encode()
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return token.Token{}, err
	}
	return next, s.update(func(tx *bbolt.Tx) error {
		held, err := getToken(tx, []byte(t.ID))
		switch {
		case err != nil && !errors.Is(err, token.ErrNotFound):
			return err
		case held.Rev != t.Rev:
			return token.ErrConflict
		}
		return tx.Bucket(tokens).Put([]byte(t.ID), data)
	})
}

// TouchToken implements [token.Store].
func (s *Store) TouchToken(ctx context.Context, id string, at time.Time) (err error) {
	defer store.Wrap(&err, "touch token %q", id)
	data, err := at.UTC().MarshalText()
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return err
	}
	return s.update(func(tx *bbolt.Tx) error {
		if tx.Bucket(tokens).Get([]byte(id)) == nil {
			return token.ErrNotFound
		}
		return tx.Bucket(tokenUses).Put([]byte(id), data)
	})
}

// Tokens implements [token.Store].
func (s *Store) Tokens(ctx context.Context) (all []token.Token, err error) {
	defer store.Wrap(&err, "list tokens")
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		return tx.Bucket(tokens).ForEach(func(id, _ []byte) error {
			t, err := getToken(tx, id)
			all = append(all, t)
			return err
		})
	})
	return all, err
}

// getToken returns the token with the id, or [token.ErrNotFound].
func getToken(tx *bbolt.Tx, id []byte) (token.Token, error) {
	data := tx.Bucket(tokens).Get(id)
	if data == nil {
		return token.Token{}, token.ErrNotFound
	}
	return token.Decode(data, string(tx.Bucket(tokenUses).Get(id)))
}
