package signin

import (
	"context"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
)

// part has all sessions, so that one call can list them. There are at most a few hundred.
const part = "LOGIN#SESSIONS"

// A Store stores sessions for all instances of the gateway. It is safe for concurrent use.
type Store struct {
	docs document.Store
	now  func() time.Time
}

// NewStore returns the store of the sessions in docs. A nil now is time.Now.
func NewStore(docs document.Store, now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	return &Store{docs, now}
}

// Get returns the session with strong consistency. It returns [ErrNotFound] for a missing or
// expired session.
func (x *Store) Get(ctx context.Context, id string) (s Session, err error) {
	defer document.Wrap(&err, ErrConflict, "get login %q", id)
	d, err := document.Find(ctx, x.docs, docKey(id), ErrNotFound)
	if err != nil {
		return Session{}, err
	}
	if s, err = decodeDoc(d); err == nil && !s.Live(x.now()) {
		return Session{}, ErrNotFound
	}
	return s, err
}

// Put stores s if the stored revision is still s.Rev (0: must not exist yet), and returns s with
// its new Rev. Otherwise it returns [ErrConflict], so storing the use of a deleted session does not
// restore the session.
func (x *Store) Put(ctx context.Context, s Session) (_ Session, err error) {
	defer document.Wrap(&err, ErrConflict, "put login %q", s.ID)
	next, data, err := s.Encode()
	if err == nil {
		d := document.Doc{Key: docKey(s.ID), Data: data, Rev: s.Rev, Keep: s.Expires}
		err = x.docs.PutDocs(ctx, d)
	}
	if err != nil {
		return Session{}, err
	}
	return next, nil
}

// Delete removes the session. An absent session is no error.
func (x *Store) Delete(ctx context.Context, id string) (err error) {
	defer document.Wrap(&err, ErrConflict, "delete login %q", id)
	_, err = document.Retry(ctx, document.ErrConflict, func() (document.Doc, error) {
		d, err := document.Get(ctx, x.docs, docKey(id))
		if err != nil || d.Rev == 0 {
			return d, err
		}
		return d, x.docs.PutDocs(ctx, document.Doc{Key: d.Key, Rev: d.Rev})
	})
	return err
}

// List returns all sessions that have not expired, by id. It skips unreadable sessions: nobody can
// use them, and other people can still sign in.
func (x *Store) List(ctx context.Context) (live []Session, err error) {
	defer document.Wrap(&err, ErrConflict, "list logins")
	docs, _, err := x.docs.ListDocs(ctx, part)
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		if s, err := decodeDoc(d); err == nil && s.Live(x.now()) {
			live = append(live, s)
		}
	}
	return live, nil
}

func decodeDoc(d document.Doc) (Session, error) {
	s, err := decode(d.Data)
	s.Rev = d.Rev
	return s, err
}

func docKey(id string) document.Key { return document.Key{Part: part, ID: id} }
