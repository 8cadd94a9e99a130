// Package approval keeps what people decided about tools, and binds each
// decision to the exact definition that the person saw.
//
// The transitions are pure functions of a record: the same record, the same
// event, the same time give the same new record. A [Store] keeps the result;
// because two writers may hold the same record at once, a write names the
// revision it read and fails with [ErrConflict] if another came first.
package approval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// What a caller may have to tell apart.
var (
	ErrNotFound = errors.New("approval record not found")             // nothing was ever recorded of the tool
	ErrConflict = errors.New("approval record changed since read")    // caller re-reads and retries
	ErrStale    = errors.New("definition changed since it was shown") // the hash that the person saw is no longer current
)

// A State is where a definition stands with the people who approve.
type State string

// The three states of a record.
const (
	Approved State = "approved"
	Pending  State = "pending"
	Changed  State = "changed"
)

// A Mode says when a tool needs a person. The zero Mode is not valid: a
// missing check is never a disabled check.
type Mode string

// The three modes of a server's "approval".
const (
	Manual   Mode = "manual"    // every tool waits
	OnChange Mode = "on_change" // the first list is the baseline
	Off      Mode = "off"       // nothing waits
)

// Format is the number of the form that this program writes records in. It grows
// only if a program that knows an earlier form would take a record for something else;
// a member more is no new form, since programs keep what they do not know.
const Format = 1

// A Record is what is known and was decided about one tool. Records outlive
// the tool, the server and the config.
type Record struct {
	Format       int             `json:"format"` // set by the store at each Put; 0: written before forms were counted
	Server       string          `json:"server"`
	Tool         string          `json:"tool"`
	URL          string          `json:"url,omitempty"` // where the server was when the tool was last seen
	State        State           `json:"state"`
	Disabled     bool            `json:"disabled"`
	ApprovedHash tool.Hash       `json:"approved_hash"` // "": never approved
	CurrentHash  tool.Hash       `json:"current_hash"`
	Approved     json.RawMessage `json:"approved,omitempty"` // the approved definition, byte-exact
	Current      json.RawMessage `json:"current,omitempty"`  // the definition last seen, byte-exact
	By           string          `json:"by"`                 // who decided last; "sync" for a baseline
	At           time.Time       `json:"at"`                 // when
	Note         string          `json:"note,omitempty"`

	// ApprovedBefore are the hashes that were approved at this server, the newest first, at
	// most 50. A definition that was approved earlier waits like any other; people are told of it.
	ApprovedBefore []Remembered `json:"approved_before,omitempty"`

	Lost *Lost `json:"lost,omitempty"` // the store had lost the record, and nobody has said yet what holds; nil: no

	FirstSeen time.Time       `json:"first_seen"`
	DecidedAt time.Time       `json:"decided_at,omitzero"` // when a person last decided; zero: nobody did. What Changes goes by
	Rev       int64           `json:"rev"`                 // 0: not stored yet
	UpdatedAt time.Time       `json:"updated_at"`          // set by the store at each Put
	LostRev   int64           `json:"-"`                   // a revision that the store lost: the next one is beyond it
	Unknown   rawjson.Members `json:"-"`                   // what else a newer program wrote; a store keeps it
}

// A Remembered is an approval that was given once.
type Remembered struct {
	Hash tool.Hash `json:"hash"`
	By   string    `json:"by"` // "": not known
	At   time.Time `json:"at"`
}

// ID returns the record's tool id.
func (r Record) ID() tool.ID { return tool.ID{Server: r.Server, Name: r.Tool} }

// Next returns r as a store keeps it when r is put at the given time: at the next
// revision, and updated later than before whatever the clock says.
func (r Record) Next(now time.Time) Record {
	r.Format = max(r.Format, Format)
	r.Unknown = r.Unknown.Without("last_seen") // of an earlier version
	r.Rev = max(r.Rev, r.LostRev) + 1
	r.LostRev = 0
	r.UpdatedAt = later(now, r.UpdatedAt)
	return r
}

// Decision returns what [Store.Changes] tells of the record.
func (r Record) Decision() Decision {
	return Decision{
		ID: r.ID(), Rev: r.Rev, State: r.State, Disabled: r.Disabled,
		ApprovedHash: r.ApprovedHash, CurrentHash: r.CurrentHash, DecidedAt: r.DecidedAt,
	}
}

// A Decision is where a tool stands that a person decided about: of its record what
// changes with a decision, and no text.
type Decision struct {
	ID           tool.ID
	Rev          int64
	State        State
	Disabled     bool
	ApprovedHash tool.Hash
	CurrentHash  tool.Hash
	DecidedAt    time.Time
}

// over returns the record as it is with the decision; r is the record of an earlier revision, nil
// if none is known. The approved definition stays that of r.
func (d Decision) over(r *Record) *Record {
	next := Record{Server: d.ID.Server, Tool: d.ID.Name}
	if r != nil {
		next = *r
	}
	next.Rev, next.State, next.Disabled = d.Rev, d.State, d.Disabled
	next.ApprovedHash, next.CurrentHash, next.DecidedAt = d.ApprovedHash, d.CurrentHash, d.DecidedAt
	return &next
}

// An Entry is one audit line: who did what to which tool, when.
type Entry struct {
	Server string    `json:"server"`
	Tool   string    `json:"tool"`
	Actor  string    `json:"actor"`
	Action string    `json:"action"` // approve, disable, enable, baseline, observe, …
	Hash   tool.Hash `json:"hash,omitempty"`
	Note   string    `json:"note,omitempty"`
	At     time.Time `json:"at"`
	Rev    int64     `json:"rev"` // the revision that this made; set by the store

	Written time.Time `json:"-"` // when the store wrote the line; set by the store
}

// Line returns e as a store keeps it beside r, the record that was just written.
func (r Record) Line(e Entry) Entry {
	e.Rev, e.Written = r.Rev, r.UpdatedAt
	return e
}

// A Place is where a line stands in the audit of a server: they are sorted by when they were
// written, the newest first, and those of one moment by tool, from z to a. The zero
// Place is before all of them.
type Place struct {
	Written time.Time
	Tool    string
}

// Place returns where the line stands.
func (e Entry) Place() Place { return Place{e.Written, e.Tool} }

// Before reports whether a line at p stands before one at other.
func (p Place) Before(other Place) bool {
	if p == (Place{}) || other == (Place{}) {
		return p != other && p == (Place{})
	}
	return cmp.Or(other.Written.Compare(p.Written), cmp.Compare(other.Tool, p.Tool)) < 0
}

// A Store holds records and their audit. Every implementation passes
// approvaltest.Run. It is safe for concurrent use.
type Store interface {
	// Get returns the record as of every Put that returned before it began,
	// or [ErrNotFound].
	Get(ctx context.Context, id tool.ID) (Record, error)

	// Peek is Get, but a driver may return what it had a few seconds ago if that costs
	// less. It is for looking whether something has to be read at all.
	Peek(ctx context.Context, id tool.ID) (Record, error)

	// Records returns every record of the server, by tool, each as of every Put
	// that returned before it began.
	Records(ctx context.Context, server string) ([]Record, error)

	// Changes returns what people decided: of every record with DecidedAt >= since
	// where it stands now, the oldest decision first; the zero time returns all. A record
	// that nobody decided about is never among them, whatever a sync writes to it. A
	// driver on a distributed index may show a decision late, so callers ask
	// again from a little before the time of their last read.
	//
	// The answer is a page, from the beginning if after is "". If next is not "" more
	// follows: it is the after of the next page, also of a later call with the same since.
	Changes(ctx context.Context, since time.Time, after string) (page []Decision, next string, err error)

	// Put stores r and e together, or neither, if the stored revision is still
	// r.Rev (0: must not exist yet), and returns r as [Record.Next] says. It returns
	// [ErrConflict] if another writer came first. A nil e writes no audit line.
	Put(ctx context.Context, r Record, e *Entry) (Record, error)

	// Audit returns a server's audit lines that stand after the place, which need not
	// be that of a line, in their order, at most limit.
	Audit(ctx context.Context, server string, after Place, limit int) ([]Entry, error)
}
