package stop

import (
	"context"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
)

// Key returns the key of the document that has the stops of people.
func Key() document.Key { return document.Key{Part: "STOP", ID: "STOP"} }

// Read returns the stops of people, with the changes of every PutStops that returned before Read
// began. If there are no stops, it returns no error.
func Read(ctx context.Context, docs document.Reader) (held Stops, err error) {
	defer document.Wrap(&err, ErrConflict, "get stops")
	d, err := document.Get(ctx, docs, Key())
	if err != nil {
		return Stops{}, err
	}
	return DecodeDoc(d)
}

// A Store keeps the stops of people for all instances of the gateway. It is safe for concurrent
// use.
type Store struct{ docs document.Store }

// NewStore returns the stops in docs.
func NewStore(docs document.Store) *Store { return &Store{docs} }

// Stops returns the result of [Read].
func (s *Store) Stops(ctx context.Context) (Stops, error) { return Read(ctx, s.docs) }

// PutStops stores n if the stored revision is still n.Rev (0: must not exist yet) and returns the
// stops at their new Rev, or [ErrConflict] if another writer came first. It refuses stops that
// [Stops.Check] refuses.
func (s *Store) PutStops(ctx context.Context, n Stops) (_ Stops, err error) {
	defer document.Wrap(&err, ErrConflict, "put stops")
	next, data, err := n.Encode()
	if err == nil {
		err = s.docs.PutDocs(ctx, document.Doc{Key: Key(), Data: data, Rev: n.Rev})
	}
	if err != nil {
		return Stops{}, err
	}
	return next, nil
}

// Change applies a change to the stored stops, and repeats it if another writer came first: so the
// changes of two writers at the same time both take effect. If the change fails, or changes
// nothing, it stores nothing.
func (s *Store) Change(ctx context.Context, change func(Stops) (Stops, error)) (Stops, error) {
	return document.Retry(ctx, ErrConflict, func() (Stops, error) {
		held, err := s.Stops(ctx)
		if err != nil {
			return Stops{}, err
		}
		next, err := change(held)
		if err != nil || slices.Equal(held.List, next.List) {
			return held, err
		}
		return s.PutStops(ctx, next)
	})
}
