package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// MaxOpen is how many notices an outbox holds. Who floods it loses what comes after; the people
	// are told of the others, and see all of them at /admin.
	MaxOpen = 1024

	// GiveUpAfter is how long a target is tried.
	GiveUpAfter = 24 * time.Hour

	// Remember is how long an outbox knows the id of an event that was put, at least.
	Remember = 7 * 24 * time.Hour
)

// Errors of an [Outbox].
var (
	ErrFull  = errors.New("the outbox is full")        // nothing was kept
	ErrTaken = errors.New("notice changed since read") // another sends it, or has sent it
)

// A Notice is an event on its way to the targets.
type Notice struct {
	Event Event     `json:"event"`
	Put   time.Time `json:"put"`             // when it came
	Done  []string  `json:"done,omitempty"`  // keys of the targets that were told, or given up
	Tries int       `json:"tries,omitempty"` // how often a target was not reached
	Due   time.Time `json:"due"`             // it is not touched before: another sends it, or it failed
	Rev   int64     `json:"rev"`
	Slot  string    `json:"-"` // where its store has it
}

// Is reports whether a target needs nothing more.
func (n Notice) Is(done string) bool { return slices.Contains(n.Done, done) }

// A Box takes events: what who has something to tell needs of an outbox.
type Box interface {
	// Put keeps the event, as [Event.Fit] returns it, unless one with its id was put in the last
	// [Remember]. It returns [ErrFull] if [MaxOpen] notices are open, or nearly as many; nothing is
	// kept then, and the id is not known either. It reads nothing.
	Put(ctx context.Context, e Event) error
}

// An Outbox keeps events until every target was told. Every implementation passes notifytest.Run.
// It is safe for concurrent use, also by several processes.
type Outbox interface {
	Box

	// Pending returns the open notices, the oldest first, those of later as well.
	Pending(ctx context.Context) ([]Notice, error)

	// Change keeps n if it is still open at n.Rev, and returns it at its new revision; else it
	// returns [ErrTaken] and changes nothing. So of several that claim a notice one gets it.
	Change(ctx context.Context, n Notice) (Notice, error)

	// Remove ends a notice that is still open at n.Rev, else it returns [ErrTaken]. Its id stays known.
	Remove(ctx context.Context, n Notice) error
}

// NewNotice returns the notice of an event that comes now.
func NewNotice(e Event, now time.Time) Notice {
	now = now.UTC().Truncate(time.Microsecond)
	return Notice{Event: e.Fit(now), Put: now, Due: now}
}

// Encode returns n at its next revision, and its stored form.
func (n Notice) Encode() (next Notice, data []byte, err error) {
	n.Rev++
	data, err = json.Marshal(n)
	return n, data, err
}

// DecodeNotice reads what [Notice.Encode] wrote.
func DecodeNotice(data []byte) (n Notice, err error) {
	if err = json.Unmarshal(data, &n); err == nil && n.Event.ID == "" {
		err = errors.New("it has no id")
	}
	if err != nil {
		return Notice{}, fmt.Errorf("stored notice: %w", err)
	}
	return n, nil
}

// SortNotices puts notices in the order in which they came.
func SortNotices(list []Notice) {
	slices.SortFunc(list, func(a, b Notice) int {
		return cmp.Or(a.Put.Compare(b.Put), cmp.Compare(a.Event.ID, b.Event.ID))
	})
}
