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

// Asks has the operations of the function that agents call. None of them grants access.
type Asks interface {
	// List returns the requests of the agent with this key, as of every write that returned
	// before List began. If there are none, it returns the zero List and no error.
	List(ctx context.Context, key string) (List, error)

	// PutList stores the list if the stored revision is still a.Rev (0: must not exist yet). It
	// returns the list at its new Rev, or [ErrConflict] if another writer came first. If added is
	// not "", the same write stores a pointer to the request with this id, and the request's
	// arguments, if there are any. If the id is already in use, it returns [ErrConflict]. It
	// refuses what [List.Check] and [List.Added] refuse.
	PutList(ctx context.Context, a List, added string, arguments json.RawMessage) (List, error)

	// Granted returns the decisions about the requests of the agent with this key, as List does.
	Granted(ctx context.Context, key string) (Granted, error)

	// Use records that the confirmed call of a request is made now. The error is nil for the first
	// use; used is then now, to the microsecond. For any other use the error is [ErrUsed], and used
	// is the time of the first use. If two calls come at the same time, one gets ErrUsed. After any
	// other error it is unknown whether the use was recorded, and the call must not be made. The
	// confirmation ends at the time keep. After that, the store keeps the record of the use for as
	// long as the decision.
	Use(ctx context.Context, request string, now, keep time.Time) (used time.Time, err error)
}

// A Pointer names the agent of a request.
type Pointer struct {
	Request   string
	Key       string    // of the agent
	Expires   time.Time // of the request
	KeepUntil time.Time // end of the pointer's storage; see [Request.KeepUntil]
}

// HashArgs returns the SHA-256, as hex, of the canonical JSON of a call's arguments. It returns ""
// if the arguments have no canonical form, because they are not JSON or contain a name twice. A
// confirmation is valid only for arguments with this hash.
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

// ChangeList applies a change to an agent's requests, and repeats it if another writer came first.
// So the changes of two writers at the same time both take effect. added is the id of the request
// that the change adds, with its arguments; "": none. If the change fails, or changes nothing,
// nothing is stored.
func ChangeList(
	ctx context.Context, s Asks, a Agent,
	change func(List) (next List, added string, arguments json.RawMessage, err error),
) (List, error) {
	return document.Retry(ctx, ErrConflict, func() (List, error) {
		held, err := s.List(ctx, a.Key())
		if err != nil {
			return List{}, err
		}
		held.Agent = a
		next, added, arguments, err := change(held)
		if err != nil || added == "" && slices.Equal(held.List, next.List) {
			return held, err
		}
		return s.PutList(ctx, next, added, arguments)
	})
}

// ChangeGranted applies a change to the decisions about an agent's requests, as [ChangeList]
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
