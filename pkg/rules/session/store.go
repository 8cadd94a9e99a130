package session

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// A Store keeps sessions for all instances of the gateway. It is safe for concurrent use.
type Store struct{ docs document.Store }

// NewStore returns the sessions in docs.
func NewStore(docs document.Store) *Store { return &Store{docs} }

// Get returns the session under k, as of every write that returned before Get began, or
// [ErrNotFound].
func (x *Store) Get(ctx context.Context, k Key) (_ Session, err error) {
	defer document.Wrap(&err, document.ErrConflict, "get session of %q", k.Server)
	d, err := document.Find(ctx, x.docs, docKey(k), ErrNotFound)
	if err != nil {
		return Session{}, err
	}
	return decodeDoc(d), nil
}

// Put stores s under k if there is no session, or one with the id of s or of old. If there is
// another session, Put stores nothing and returns that session with [ErrConflict].
func (x *Store) Put(ctx context.Context, k Key, s Session, old secret.Text) (_ Session, err error) {
	defer document.Wrap(&err, document.ErrConflict, "put session of %q", k.Server)
	return document.Retry(ctx, document.ErrConflict, func() (Session, error) {
		d, err := document.Get(ctx, x.docs, docKey(k))
		if err != nil {
			return Session{}, err
		}
		if kept := decodeDoc(d); d.Rev != 0 && !kept.ID.Equal(s.ID) && !kept.ID.Equal(old) {
			return kept, ErrConflict
		}
		if d.Rev == 0 { // another session may have had this revision
			d.Rev = -rand.Int64N(1 << 50)
		}
		d.Data, d.Mark, d.Keep = []byte(s.ID.Reveal()), s.Version, s.Expires.Truncate(time.Second)
		return s, x.docs.PutDocs(ctx, d)
	})
}

// Delete removes the session under k if it has the id of s. If the stored session expires later
// than s, another caller has used it, and the error is [ErrConflict]. An absent or different
// session is no error.
func (x *Store) Delete(ctx context.Context, k Key, s Session) (err error) {
	defer document.Wrap(&err, document.ErrConflict, "delete session of %q", k.Server)
	_, err = document.Retry(ctx, document.ErrConflict, func() (document.Doc, error) {
		d, err := document.Get(ctx, x.docs, docKey(k))
		switch {
		case err != nil || d.Rev == 0 || !decodeDoc(d).ID.Equal(s.ID):
			return d, err
		case d.Keep.Unix() > s.Expires.Unix():
			return d, ErrConflict
		}
		return d, x.docs.PutDocs(ctx, document.Doc{Key: d.Key, Rev: d.Rev})
	})
	return err
}

func decodeDoc(d document.Doc) Session {
	return Session{ID: secret.New(string(d.Data)), Version: d.Mark, Expires: d.Keep}
}

func docKey(k Key) document.Key { return document.Key{Part: "SESSION#" + k.ID(), ID: "SESSION"} }
