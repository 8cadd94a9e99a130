package bolt

import (
	"cmp"
	"context"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/login"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// logins is a bucket of the file: id → login.Session.
var logins = []byte("logins")

// Logins is a [login.Store] in the file of the approvals.
type Logins struct{ s *Store }

var _ login.Store = Logins{}

// Logins returns the sessions of the file.
func (s *Store) Logins() Logins { return Logins{s} }

// Get implements [login.Store].
func (x Logins) Get(ctx context.Context, id string) (s login.Session, err error) {
	defer store.Wrap(&err, "get login %q", id)
	err = x.s.view(ctx, func(tx *bbolt.Tx) error {
		data := tx.Bucket(logins).Get([]byte(id))
		if data == nil {
			return login.ErrNotFound
		}
		if s, err = login.Decode(data); err == nil && !s.Live(x.s.o.Now()) {
			return login.ErrNotFound
		}
		return err
	})
	return s, err
}

// Put implements [login.Store]. A first write removes the sessions that have expired.
func (x Logins) Put(ctx context.Context, s login.Session) (next login.Session, err error) {
	defer store.Wrap(&err, "put login %q", s.ID)
	next, data, err := s.Encode()
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return login.Session{}, err
	}
	err = x.s.update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(logins)
		var held login.Session
		if kept := b.Get([]byte(s.ID)); kept != nil {
			if held, err = login.Decode(kept); err != nil {
				return err
			}
		}
		if held.Rev != s.Rev {
			return login.ErrConflict
		}
		if s.Rev == 0 {
			now := x.s.o.Now()
			if err := sweep(tx, logins, func(_, data []byte) bool { // what cannot be read signs nobody in
				s, err := login.Decode(data)
				return err != nil || !s.Live(now)
			}); err != nil {
				return err
			}
		}
		return b.Put([]byte(s.ID), data)
	})
	if err != nil {
		return login.Session{}, err
	}
	return next, nil
}

// Delete implements [login.Store].
func (x Logins) Delete(ctx context.Context, id string) (err error) {
	defer store.Wrap(&err, "delete login %q", id)
	if err := ctx.Err(); err != nil {
		return err
	}
	return x.s.update(func(tx *bbolt.Tx) error { return tx.Bucket(logins).Delete([]byte(id)) })
}

// List implements [login.Store]. What cannot be read signs nobody in, and keeps nobody out.
func (x Logins) List(ctx context.Context) (all []login.Session, err error) {
	defer store.Wrap(&err, "list logins")
	err = x.s.view(ctx, func(tx *bbolt.Tx) error {
		return tx.Bucket(logins).ForEach(func(_, data []byte) error {
			if s, err := login.Decode(data); err == nil && s.Live(x.s.o.Now()) {
				all = append(all, s)
			}
			return nil
		})
	})
	return all, err
}
