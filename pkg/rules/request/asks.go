package request

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Asks are what the function that agents call may read and write. It cannot grant.
type Asks interface {
	// Asked returns what the agent with this key asked for, as of every write that returned before
	// it began. Nothing is the zero Asked and no error.
	Asked(ctx context.Context, key string) (Asked, error)

	// PutAsked stores a if the stored revision is still a.Rev (0: must not exist yet) and returns
	// it at its new Rev, or [ErrConflict] if another writer came first. Together with it, or not at
	// all, it stores where the request with the id added is found, and its arguments if there are
	// some; with added "" neither. If there is a request with that id already it returns
	// [ErrConflict]. It refuses what [Asked.Check] and [Asked.Added] refuse.
	PutAsked(ctx context.Context, a Asked, added string, arguments json.RawMessage) (Asked, error)

	// Granted returns what people decided about the requests of the agent with this key, as Asked
	// does.
	Granted(ctx context.Context, key string) (Granted, error)

	// Use notes that the confirmed call of a request is made now. It is the one use if used is
	// now's time, to the microsecond, and the error nil; [ErrUsed] comes with when it was used. Of
	// two at one moment one is told ErrUsed. If it is not known whether the note was kept the error
	// is another one, and the call must not be made. keep is when the confirmation has ended; the
	// note is kept for as long after it as the decision is known.
	Use(ctx context.Context, request string, now, keep time.Time) (used time.Time, err error)
}

// A Pointer says whose a request is.
type Pointer struct {
	Request string
	Key     string    // of the agent
	Expires time.Time // of the request
	Kept    time.Time // until when the pointer is known, as [Request.Kept] says
}

// HashArgs returns what a call's arguments are bound by: the SHA-256, as hex, of their canonical
// JSON; "" if they have none, since a name stands in them twice or they are no JSON.
func HashArgs(arguments json.RawMessage) string {
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	canonical, err := tool.Canonical(arguments)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// ChangeAsked applies a change to what an agent asked for, and again if another writer came first:
// so the changes of two writers at the same time both take effect. added is the id of the request
// that it adds, with its arguments; "": none. If the change fails, or changes nothing, nothing is
// stored.
func ChangeAsked(
	ctx context.Context, s Asks, a Agent,
	change func(Asked) (next Asked, added string, arguments json.RawMessage, err error),
) (Asked, error) {
	return document.Retry(ctx, ErrConflict, func() (Asked, error) {
		held, err := s.Asked(ctx, a.Key())
		if err != nil {
			return Asked{}, err
		}
		held.Agent = a
		next, added, arguments, err := change(held)
		if err != nil || added == "" && slices.Equal(held.List, next.List) {
			return held, err
		}
		return s.PutAsked(ctx, next, added, arguments)
	})
}

// ChangeGranted applies a change to what was decided about an agent's requests, as [ChangeAsked]
// does.
func (s *Store) ChangeGranted(
	ctx context.Context, a Agent, change func(Granted) (Granted, error),
) (Granted, error) {
	return document.Retry(ctx, ErrConflict, func() (Granted, error) {
		held, err := s.Granted(ctx, a.Key())
		if err != nil {
			return Granted{}, err
		}
		held.Agent = a
		next, err := change(held)
		if err != nil || slices.Equal(held.List, next.List) {
			return held, err
		}
		return s.PutGranted(ctx, next)
	})
}
