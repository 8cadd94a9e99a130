package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
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

const (
	// slotTries is in how many slots one event is tried. Each slot is a hash of its id, so that
	// nothing has to be read to find a free one, and there are MaxOpen slots.
	slotTries = 6

	// keepNotice is how long a notice is kept that no sync has given up, since none runs.
	keepNotice = 30 * GiveUpAfter

	openPart = "OUTBOX#OPEN"
	seenPart = "OUTBOX#SEEN"
)

// An Outbox keeps events until every target was told. It is safe for concurrent use, also by
// several processes. A role that may write documents is enough to put events.
type Outbox struct {
	docs document.Store
	now  func() time.Time
}

// NewOutbox returns the notices that docs keeps. A nil now is time.Now.
func NewOutbox(docs document.Store, now func() time.Time) *Outbox {
	if now == nil {
		now = time.Now
	}
	return &Outbox{docs, now}
}

// Put keeps the event, as [Event.Fit] returns it, unless an event with its id was put in the last
// [Remember]. It returns [ErrFull] if [MaxOpen] notices are open, or nearly as many. Then nothing
// is kept, and the id is not known either. It reads nothing.
//
// An event whose slots are all taken finds the outbox full: while few notices wait
// that does not happen, with half of the slots taken it does to one event in sixty.
func (x *Outbox) Put(ctx context.Context, e Event) (err error) {
	defer document.Wrap(&err, ErrTaken, "put notice")
	now := x.now()
	n := newNotice(e, now)
	n.Rev = 1 + rand.Int64N(1<<50) // another notice may have had the slot before
	open := document.Doc{Mark: n.Event.ID, Rev: -n.Rev, Keep: now.Add(keepNotice)}
	if _, open.Data, err = n.Encode(); err != nil {
		return err
	}
	seen := document.Doc{Data: []byte("seen"), Keep: now.Add(Remember)}
	seen.Key = document.Key{Part: seenPart, ID: n.Event.ID}
	for try := range slotTries {
		open.Key = openKey(slotOf(n.Event.ID, try))
		err := x.docs.PutDocs(ctx, seen, open)
		switch conflict, ok := errors.AsType[*document.ConflictError](err); {
		case !ok:
			return err
		case conflict.Key == seen.Key:
			return nil
		}
	}
	return ErrFull
}

// slotOf returns the slot of an event that is tried after so many others.
func slotOf(id string, try int) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // which never fails
	_, _ = h.Write([]byte{byte(try)})
	return strconv.FormatUint(h.Sum64()%MaxOpen, 10)
}

// Pending returns the open notices, the oldest first, even those that are due later. all is false
// if there are more than it reads at once, or some that cannot be read.
func (x *Outbox) Pending(ctx context.Context) (list []Notice, all bool, err error) {
	defer document.Wrap(&err, ErrTaken, "list notices")
	docs, all, err := x.docs.ListDocs(ctx, openPart)
	if err != nil {
		return nil, false, err
	}
	for _, d := range docs {
		n, err := decodeNotice(d.Data)
		if err != nil {
			all = false // the others are told
			continue
		}
		n.Slot, n.Rev = d.ID, d.Rev
		list = append(list, n)
	}
	sortNotices(list)
	return list, all, nil
}

// Change keeps n if it is still open at n.Rev, and returns it at its new revision. Otherwise it
// returns [ErrTaken] and changes nothing. So of several senders that claim a notice one gets it.
func (x *Outbox) Change(ctx context.Context, n Notice) (_ Notice, err error) {
	defer document.Wrap(&err, ErrTaken, "change notice")
	next, data, err := n.Encode()
	if err == nil {
		err = x.docs.PutDocs(ctx, document.Doc{
			Key: openKey(n.Slot), Data: data, Rev: n.Rev, Keep: n.Put.Add(keepNotice),
			Mark: n.Event.ID,
		})
	}
	if err != nil {
		return Notice{}, err
	}
	return next, nil
}

// Remove ends a notice that is still open at n.Rev, otherwise it returns [ErrTaken]. Its id stays
// known.
func (x *Outbox) Remove(ctx context.Context, n Notice) (err error) {
	defer document.Wrap(&err, ErrTaken, "remove notice")
	return x.docs.PutDocs(ctx, document.Doc{Key: openKey(n.Slot), Rev: n.Rev, Mark: n.Event.ID})
}

func openKey(slot string) document.Key { return document.Key{Part: openPart, ID: slot} }

// newNotice returns the notice of an event that comes now.
func newNotice(e Event, now time.Time) Notice {
	now = now.UTC().Truncate(time.Microsecond)
	return Notice{Event: e.Fit(now), Put: now, Due: now}
}

// Encode returns n at its next revision, and its stored form.
func (n Notice) Encode() (next Notice, data []byte, err error) {
	n.Rev++
	data, err = json.Marshal(n)
	return n, data, err
}

// decodeNotice reads what [Notice.Encode] wrote.
func decodeNotice(data []byte) (n Notice, err error) {
	if err = json.Unmarshal(data, &n); err == nil && n.Event.ID == "" {
		err = errors.New("it has no id")
	}
	if err != nil {
		return Notice{}, fmt.Errorf("stored notice: %w", err)
	}
	return n, nil
}

// sortNotices puts notices in the order in which they came.
func sortNotices(list []Notice) {
	slices.SortFunc(list, func(a, b Notice) int {
		return cmp.Or(a.Put.Compare(b.Put), cmp.Compare(a.Event.ID, b.Event.ID))
	})
}
