package approval

import (
	"context"
	"errors"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Update writes the result of change for the record with the id, and returns the record that the
// store has afterwards. stored is the record that the caller last read; nil: none. If another
// writer comes first, Update calls change again with the newer record. If change returns no
// record, Update writes nothing.
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
