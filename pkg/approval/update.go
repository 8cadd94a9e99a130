package approval

import (
	"context"
	"errors"
	"fmt"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// maxTries is how often [Update] tries. Each further try means that another writer came first.
const maxTries = 4

// Update writes what change makes of the record with the id, and returns the record that the store
// then has. stored is the record as the caller knows it, nil: there is none. If another writer
// comes first, change is called again with the record as it is then. If next is nil nothing is
// written.
func Update(ctx context.Context, s Store, id tool.ID, stored *Record, change func(stored *Record) (next *Record, e *Entry, err error)) (*Record, error) {
	for range maxTries {
		next, e, err := change(stored)
		if err != nil || next == nil {
			return stored, err
		}
		after, err := s.Put(ctx, *next, e)
		if !errors.Is(err, ErrConflict) {
			return &after, err
		}
		current, err := s.Get(ctx, id)
		switch {
		case err == nil:
			stored = &current
		case errors.Is(err, ErrNotFound):
			stored = nil
		default:
			return nil, err
		}
	}
	return nil, fmt.Errorf("%d times: %w", maxTries, ErrConflict)
}
