package request

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// Asks are what the function that agents call may read and write. It cannot grant.
type Asks interface {
	// Asked returns what the agent with this key asked for, as of every write that returned before it
	// began. Nothing is the zero Asked and no error.
	Asked(ctx context.Context, key string) (Asked, error)

	// PutAsked stores a if the stored revision is still a.Rev (0: must not exist yet) and returns it at
	// its new Rev, or [ErrConflict] if another writer came first. Together with it, or not at all, it
	// stores where the request with the id added is found, and its arguments if there are some; with
	// added "" neither. It refuses what [Asked.Check] refuses.
	PutAsked(ctx context.Context, a Asked, added string, arguments json.RawMessage) (Asked, error)

	// Granted returns what people decided about the requests of the agent with this key, as Asked does.
	Granted(ctx context.Context, key string) (Granted, error)

	// Use notes that the confirmed call of a request is made now. It is the one use if used is now's
	// time, to the microsecond, and the error nil; [ErrUsed] comes with when it was used. The note is kept until keep at
	// least. Of two at one moment one is told ErrUsed. If it is not known whether the note was kept
	// the error is another one, and the call must not be made.
	Use(ctx context.Context, request string, now, keep time.Time) (used time.Time, err error)
}

// A Store keeps requests and what people decided about them. Every implementation passes
// requesttest.Run. It is safe for concurrent use.
type Store interface {
	Asks

	// PutGranted stores g as PutAsked stores what was asked for.
	PutGranted(ctx context.Context, g Granted) (Granted, error)

	// Arguments returns the arguments of the call that a request is about, byte for byte, or
	// [ErrNotFound]: they are kept until DropArguments, or until the request expires.
	Arguments(ctx context.Context, key, request string) (json.RawMessage, error)

	// DropArguments removes them. That there are none is no error.
	DropArguments(ctx context.Context, key, request string) error

	// Used returns when the confirmed call of a request was made; the zero time: it was not.
	Used(ctx context.Context, request string) (time.Time, error)

	// Whose returns the key of the agent that made a request, or [ErrNotFound].
	Whose(ctx context.Context, request string) (key string, err error)

	// Requests returns the ids of the requests that have not expired, decided or not, and whose each is.
	// If there are more than a driver reads at once, all says so.
	Requests(ctx context.Context) (list []Pointer, all bool, err error)
}

// A Pointer says whose a request is.
type Pointer struct {
	Request string
	Key     string    // of the agent
	Expires time.Time // of the request
}

// HashArgs returns what a call's arguments are bound by: the SHA-256, as hex, of their canonical JSON; ""
// if they have none, since a name stands in them twice or they are no JSON.
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

// tries is how often a change is made anew because another writer came first.
const tries = 32

// ChangeAsked applies a change to what an agent asked for, as often as it takes: of two writers at one
// moment both changes stand. added is the id of the request that it adds, with its arguments; "": none.
// If the change fails nothing is stored.
func ChangeAsked(ctx context.Context, s Asks, a Agent, change func(Asked) (next Asked, added string, arguments json.RawMessage, err error)) (Asked, error) {
	return changeDoc(func() (Asked, error) {
		held, err := s.Asked(ctx, a.Key())
		if err != nil {
			return Asked{}, err
		}
		held.Agent = a
		next, added, arguments, err := change(held)
		if err != nil {
			return held, err
		}
		return s.PutAsked(ctx, next, added, arguments)
	})
}

// ChangeGranted applies a change to what was decided about an agent's requests, as [ChangeAsked] does.
func ChangeGranted(ctx context.Context, s Store, a Agent, change func(Granted) (Granted, error)) (Granted, error) {
	return changeDoc(func() (Granted, error) {
		held, err := s.Granted(ctx, a.Key())
		if err != nil {
			return Granted{}, err
		}
		held.Agent = a
		next, err := change(held)
		if err != nil {
			return held, err
		}
		return s.PutGranted(ctx, next)
	})
}

func changeDoc[T any](once func() (T, error)) (doc T, err error) {
	for range tries {
		if doc, err = once(); !errors.Is(err, ErrConflict) {
			return doc, err
		}
	}
	return doc, err
}
