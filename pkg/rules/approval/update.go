package approval

import (
	"context"
	"errors"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Update writes what change makes of the record with the id, and returns the record that the store
// then has. stored is the record as the caller knows it, nil: there is none. If another writer
// comes first, change is called again with the record as it is then. If next is nil nothing is
// written.
func Update(
	ctx context.Context, s Store, id tool.ID, stored *Record,
	change func(stored *Record) (next *Record, e *Entry, err error),
) (*Record, error) {
	isKnown := true
	return document.Retry(ctx, ErrConflict, func() (*Record, error) {
		if !isKnown {
			switch current, err := s.Get(ctx, id); {
			case errors.Is(err, ErrNotFound):
				stored = nil
			case err != nil:
				return nil, err
			default:
				stored = &current
			}
		}
		isKnown = false
		next, e, err := change(stored)
		if err != nil || next == nil {
			return stored, err
		}
		after, err := s.Put(ctx, *next, e)
		return &after, err
	})
}
