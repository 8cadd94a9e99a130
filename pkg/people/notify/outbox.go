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
	// MaxOpen limits the notices of an outbox. If it is full, further events are lost. People still
	// get the earlier notices, and see everything at /admin.
	MaxOpen = 1024

	// GiveUpAfter limits the time in which the sender tries a target.
	GiveUpAfter = 24 * time.Hour

	// Remember is the minimum time for which an outbox remembers the id of an event.
	Remember = 7 * 24 * time.Hour
)

// Errors of an [Outbox].
var (
	ErrFull  = errors.New("the outbox is full")        // nothing was stored
	ErrTaken = errors.New("notice changed since read") // another sender sends it, or has sent it
)

// A Notice is an event that not all targets have received.
type Notice struct {
	Event Event     `json:"event"`
	Put   time.Time `json:"put"`             // when it was put
	Done  []string  `json:"done,omitempty"`  // keys of targets that have it or were given up
	Tries int       `json:"tries,omitempty"` // how often delivery to a target failed
	Due   time.Time `json:"due"`             // no sender takes it before this time
	Rev   int64     `json:"rev"`
	Slot  string    `json:"-"` // id of its document in the store
}

// IsDone reports whether the target with the key has the notice or was given up.
func (n Notice) IsDone(key string) bool { return slices.Contains(n.Done, key) }

const (
	// slotTries limits the slots that Put tries for one event. There are MaxOpen slots. The numbers
	// of the slots are hashes of the event's id, so Put finds a free slot without reads.
	slotTries = 6

	// keepNotice is how long the store keeps a notice if no sync runs that would give it up.
	keepNotice = 30 * GiveUpAfter

	openPart = "OUTBOX#OPEN"
	seenPart = "OUTBOX#SEEN"
)

// An Outbox stores events until all targets have them. It is safe for concurrent use, even by
// several processes. To put events, a process needs only the permission to write documents.
type Outbox struct {
	docs document.Store
	now  func() time.Time
}

// NewOutbox returns the outbox in docs. A nil now is time.Now.
func NewOutbox(docs document.Store, now func() time.Time) *Outbox {
	if now == nil {
		now = time.Now
	}
	return &Outbox{docs, now}
}

// Put stores the event as [Event.Fit] returns it, unless an event with its id was put within
// [Remember]. If about [MaxOpen] notices are open, it returns [ErrFull], and stores neither the
// event nor its id. It reads nothing.
//
// Put returns ErrFull if all slots of the event are full. With few notices this does not happen. If
// half of all slots are full, it happens to one event in sixty.
func (x *Outbox) Put(ctx context.Context, e Event) (err error) {
	defer document.Wrap(&err, ErrTaken, "put notice")
	now := x.now()
	n := newNotice(e, now)
	n.Rev = 1 + rand.Int64N(1<<50) // random, because an earlier notice may have used the slot
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

// slotOf returns the slot of an event's nth try.
func slotOf(id string, try int) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // Write never fails
	_, _ = h.Write([]byte{byte(try)})
	return strconv.FormatUint(h.Sum64()%MaxOpen, 10)
}

// Pending returns the open notices, oldest first, even those that are due later. all is false if
// there are more than it reads, or if some cannot be read.
func (x *Outbox) Pending(ctx context.Context) (list []Notice, all bool, err error) {
	defer document.Wrap(&err, ErrTaken, "list notices")
	docs, all, err := x.docs.ListDocs(ctx, openPart)
	if err != nil {
		return nil, false, err
	}
	for _, d := range docs {
		n, err := decodeNotice(d.Data)
		if err != nil {
			all = false // the sender still sends the other notices
			continue
		}
		n.Slot, n.Rev = d.ID, d.Rev
		list = append(list, n)
	}
	sortNotices(list)
	return list, all, nil
}

// Change stores n if the stored notice still has the revision n.Rev, and returns it with its new
// revision. Otherwise it returns [ErrTaken] and changes nothing, so only one of several senders
// gets a notice.
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

// Remove removes a notice that still has the revision n.Rev; otherwise it returns [ErrTaken]. The
// outbox still remembers the id.
func (x *Outbox) Remove(ctx context.Context, n Notice) (err error) {
	defer document.Wrap(&err, ErrTaken, "remove notice")
	return x.docs.PutDocs(ctx, document.Doc{Key: openKey(n.Slot), Rev: n.Rev, Mark: n.Event.ID})
}

func openKey(slot string) document.Key { return document.Key{Part: openPart, ID: slot} }

// newNotice returns the notice of a new event.
func newNotice(e Event, now time.Time) Notice {
	now = now.UTC().Truncate(time.Microsecond)
	return Notice{Event: e.Fit(now), Put: now, Due: now}
}

// Encode returns n with its next revision, and its stored form.
func (n Notice) Encode() (next Notice, data []byte, err error) {
	n.Rev++
	data, err = json.Marshal(n)
	return n, data, err
}

// decodeNotice parses the result of [Notice.Encode].
func decodeNotice(data []byte) (n Notice, err error) {
	if err = json.Unmarshal(data, &n); err == nil && n.Event.ID == "" {
		err = errors.New("notice has no id")
	}
	if err != nil {
		return Notice{}, fmt.Errorf("stored notice: %w", err)
	}
	return n, nil
}

// sortNotices sorts notices by the time when they were put.
func sortNotices(list []Notice) {
	slices.SortFunc(list, func(a, b Notice) int {
		return cmp.Or(a.Put.Compare(b.Put), cmp.Compare(a.Event.ID, b.Event.ID))
	})
}
