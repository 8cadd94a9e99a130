package approval

import (
	"context"
	"errors"
	"fmt"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// maxTries is how often [Update] begins again. Each further try means that yet another writer
// came first.
const maxTries = 4

// Update puts what change makes of the record with the id, and returns the record as the store
// has it then. held is the record as far as the caller knows, nil: there is none. If another writer
// comes first, change is asked again, about the record as it is by then. A nil next record leaves
// everything as it is.
func Update(ctx context.Context, s Store, id tool.ID, held *Record, change func(held *Record) (next *Record, e *Entry, err error)) (*Record, error) {
	for range maxTries {
		next, e, err := change(held)
		if err != nil || next == nil {
			return held, err
		}
		after, err := s.Put(ctx, *next, e)
		if !errors.Is(err, ErrConflict) {
			return &after, err
		}
		stored, err := s.Get(ctx, id)
		switch {
		case err == nil:
			held = &stored
		case errors.Is(err, ErrNotFound):
			held = nil
		default:
			return nil, err
		}
	}
	return nil, fmt.Errorf("%d times: %w", maxTries, ErrConflict)
}
