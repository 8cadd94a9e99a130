// Package approval keeps what people decided about tools, and binds each decision to the exact
// definition that the person saw. Prompts and resources are decided about like tools.
//
// The transitions are pure functions: the same record, event and time give the same new record. A
// [Store] keeps the result; because two writers may have read the same record, a write names the
// revision that it read and fails with [ErrConflict] if another came first.
package approval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// What a caller may have to tell apart.
var (
	ErrNotFound = errors.New("approval record not found")             // nothing was ever recorded of the tool
	ErrConflict = errors.New("approval record changed since read")    // caller re-reads and retries
	ErrStale    = errors.New("definition changed since it was shown") // the hash that the person saw is no longer current

	ErrUnchanged = errors.New("approval records are the same as before") // caller goes on with what it made of them

	ErrNotBlocked = errors.New("definition is not blocked")                            // there is nothing to unblock
	ErrBlocks     = errors.New("50 definitions of the tool are blocked, which is all") // caller disables the tool, or unblocks one
	ErrNoUndo     = errors.New("decision cannot be undone")                            // too late, already undone, or not kept

	ErrNoSubject  = errors.New("approval takes two people, and it is not known who this is") // caller signs in with the issuer
	ErrSamePerson = errors.New("approval takes two people, and this is the first one again") // another person approves
)

// A State says whether the current definition of a tool is approved.
type State string

// The four states of a record.
const (
	Approved State = "approved"
	Pending  State = "pending"
	Changed  State = "changed"
	Blocked  State = "blocked" // a person refused the current definition for good
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

// Format is the number of the newest form of records that this program knows. It grows only if a
// program that knows an earlier form would misread a record; programs keep members that they do not
// know. A record without a block is written in form 1, so that a program that knows nothing of
// blocks goes on with it; that of a prompt or a resource is in form 3, since a program that knows
// tools alone would take it for a tool's. That of what one of two people approved is in form 4: a
// program that knows nothing of two people would take the approval of one for enough.
const Format = 4

// A Record is what is known and was decided about one tool, or another item. It outlives the tool, the server and
// the config.
type Record struct {
	Format       int             `json:"format"` // set by the store at each Put; 0: written before forms were counted
	Server       string          `json:"server"`
	Tool         string          `json:"tool"`           // the item's name; a resource's is its URI
	Kind         tool.Kind       `json:"kind,omitempty"` // "": it is a tool
	URL          string          `json:"url,omitempty"`  // where the server was when the tool was last seen
	State        State           `json:"state"`
	Disabled     bool            `json:"disabled"`
	ApprovedHash tool.Hash       `json:"approved_hash"` // "": never approved
	CurrentHash  tool.Hash       `json:"current_hash"`
	Approved     json.RawMessage `json:"approved,omitempty"` // the approved definition, byte-exact
	Current      json.RawMessage `json:"current,omitempty"`  // the definition last seen, byte-exact
	By           string          `json:"by"`                 // who decided last; "sync" for a baseline
	At           time.Time       `json:"at"`                 // when
	Note         string          `json:"note,omitempty"`

	// Tell says that agents may be told Note, as what By said.
	Tell bool `json:"tell,omitempty"`

	// Blocked are the hashes that people refused for good, the newest first, at most 50.
	Blocked []Remembered `json:"blocked,omitempty"`

	// Endorsed is what a person approved last, never a baseline; its hash is "" if nobody did, or
	// if that definition was blocked since. See [Record.Endorsement].
	Endorsed Remembered `json:"endorsed,omitzero"`

	// Proposed is the approval of the current definition by the first of two people. It opens nothing.
	// nil: nobody gave it, or it takes one person alone.
	Proposed *Proposal `json:"proposed,omitempty"`

	Undo *Undo `json:"undo,omitempty"` // what the last decision replaced; nil: it cannot be undone

	// ApprovedBefore are the hashes that were approved at this server, the newest first, at
	// most 50. A definition that was approved earlier waits like any other; people are told of it.
	ApprovedBefore []Remembered `json:"approved_before,omitempty"`

	// Release says which version of which package the server was, where URL is; zero: not known, or none.
	Release Release `json:"release,omitzero"`

	Prior *PriorApproval `json:"prior,omitempty"` // in another version of that package; nil: nothing

	Lost *Lost `json:"lost,omitempty"` // the store had lost the record, and which version counts is not settled; nil: no

	FirstSeen time.Time       `json:"first_seen"`
	ChangedAt time.Time       `json:"changed_at,omitzero"` // when the definition was first seen to be another one; zero: it is not known to have changed
	DecidedAt time.Time       `json:"decided_at,omitzero"` // when a person last decided; zero: nobody did. [Store.Changes] selects by it
	Rev       int64           `json:"rev"`                 // 0: not stored yet
	UpdatedAt time.Time       `json:"updated_at"`          // set by the store at each Put
	LostRev   int64           `json:"-"`                   // a revision that the store lost: the next one is beyond it
	Unknown   rawjson.Members `json:"-"`                   // what else a newer program wrote; a store keeps it
}

// A Remembered is a verdict on a definition: an approval that was given, or a block.
type Remembered struct {
	Hash tool.Hash `json:"hash"`
	By   string    `json:"by"` // "": not known
	At   time.Time `json:"at"`
	Note string    `json:"note,omitempty"` // of a block: how it begins
	Two  bool      `json:"two,omitempty"`  // By was the second of two people who approved it
}

// A Proposal is the approval of a definition that takes two people, by the first of them.
type Proposal struct {
	Hash    tool.Hash `json:"hash"`
	By      string    `json:"by"`
	Subject string    `json:"subject"` // of By at the issuer: the second person has another one
	At      time.Time `json:"at"`
	Note    string    `json:"note,omitempty"` // how it begins
}

// An Undo is what a decision replaced, kept for some minutes' second thoughts.
type Undo struct {
	Action         string       `json:"action"` // what was decided
	Rev            int64        `json:"rev"`    // of the record before it
	Disabled       bool         `json:"disabled,omitempty"`
	By             string       `json:"by"`
	At             time.Time    `json:"at,omitzero"`
	Note           string       `json:"note,omitempty"`
	Tell           bool         `json:"tell,omitempty"`
	Blocked        []Remembered `json:"blocked,omitempty"`
	Endorsed       Remembered   `json:"endorsed,omitzero"`
	ApprovedBefore []Remembered `json:"approved_before,omitempty"`
	Lost           *Lost        `json:"lost,omitempty"`
	Proposed       *Proposal    `json:"proposed,omitempty"`

	// What was approved, if Same does not say that it is what the record says: the hash, and the
	// definition byte for byte, which a driver keeps beside the JSON of the record.
	Same         bool            `json:"same,omitempty"`
	ApprovedHash tool.Hash       `json:"approved_hash,omitempty"`
	Approved     json.RawMessage `json:"-"`
}

// ID returns the id of the item that the record is about.
func (r Record) ID() tool.ID { return tool.ID{Server: r.Server, Name: r.Tool, Kind: r.Kind} }

// Next returns r as a store keeps it after a Put at the given time: at the next revision, and with
// a later UpdatedAt than before whatever the clock says.
func (r Record) Next(now time.Time) Record {
	if r.Format <= Format {
		switch r.Format = 1; {
		case r.Proposed != nil:
			r.Format = 4
		case r.Kind != tool.Tool:
			r.Format = 3
		case len(r.Blocked) > 0:
			r.Format = 2
		}
	}
	r.Unknown = r.Unknown.Without("last_seen") // of an earlier version
	r.Rev = max(r.Rev, r.LostRev) + 1
	r.LostRev = 0
	r.UpdatedAt = later(now, r.UpdatedAt)
	return r
}

// Decision returns what [Store.Changes] returns of the record.
func (r Record) Decision() Decision {
	d := Decision{
		ID: r.ID(), Rev: r.Rev, State: r.State, Disabled: r.Disabled, Endorsed: r.Endorsement().Hash,
		ApprovedHash: r.ApprovedHash, CurrentHash: r.CurrentHash, DecidedAt: r.DecidedAt,
	}
	for _, m := range r.Blocked {
		d.Blocked = append(d.Blocked, m.Hash)
	}
	return d
}

// A Decision is the part of a record that says what people decided, without any text.
type Decision struct {
	ID           tool.ID
	Rev          int64
	State        State
	Disabled     bool
	Blocked      []tool.Hash // as [Record.Blocked]
	Endorsed     tool.Hash   // of [Record.Endorsement]
	ApprovedHash tool.Hash
	CurrentHash  tool.Hash
	DecidedAt    time.Time
}

// over returns r with the decision; r is the record at an earlier revision, nil if it is not known.
// The approved definition stays that of r. Who decided, and what they said, is not known.
func (d Decision) over(r *Record) *Record {
	next := Record{Server: d.ID.Server, Tool: d.ID.Name, Kind: d.ID.Kind}
	if r != nil {
		next = *r
	}
	next.Rev, next.State, next.Disabled = d.Rev, d.State, d.Disabled
	next.ApprovedHash, next.CurrentHash, next.DecidedAt = d.ApprovedHash, d.CurrentHash, d.DecidedAt
	next.By, next.At, next.Note, next.Tell, next.Undo, next.Proposed = "", time.Time{}, "", false, nil, nil
	next.Endorsed, next.ApprovedBefore, next.Blocked = Remembered{Hash: d.Endorsed}, nil, nil
	for _, hash := range d.Blocked {
		next.Blocked = append(next.Blocked, Remembered{Hash: hash})
	}
	return &next
}

// An Entry is one audit line: who did what to which item, when.
type Entry struct {
	Server string    `json:"server"`
	Tool   string    `json:"tool"`           // as in a [Record]
	Kind   tool.Kind `json:"kind,omitempty"` // as in a [Record]
	Actor  string    `json:"actor"`
	Action string    `json:"action"` // approve, disable, enable, baseline, observe, …
	Hash   tool.Hash `json:"hash,omitempty"`
	From   tool.Hash `json:"from,omitempty"` // that was approved before, if a person decided that it no longer is
	Note   string    `json:"note,omitempty"`
	Source string    `json:"source,omitempty"` // address that the decision came from; "": not known
	Tell   bool      `json:"tell,omitempty"`   // the note may be told to agents
	Shown  string    `json:"shown,omitempty"`  // how the actor was shown what is approved; "": was not, or approves nothing
	At     time.Time `json:"at"`
	Rev    int64     `json:"rev"` // of the record after it; set by the store

	Written time.Time `json:"-"` // when the store wrote the line; set by the store
}

// Line returns e as a store keeps it beside r, the record that was just written.
func (r Record) Line(e Entry) Entry {
	e.Rev, e.Written = r.Rev, r.UpdatedAt
	return e
}

// A Cursor is a position in the audit of a server. Lines are sorted by when they were written, the
// newest first, and those of one moment by item, from z to a. The zero Cursor comes before all of
// them.
type Cursor struct {
	Written time.Time
	Tool    string // the item's [tool.ID.Key]
}

// ID returns the id of the item that the line is about.
func (e Entry) ID() tool.ID { return tool.ID{Server: e.Server, Name: e.Tool, Kind: e.Kind} }

// Cursor returns the position of the line.
func (e Entry) Cursor() Cursor { return Cursor{e.Written, e.ID().Key()} }

// Before reports whether p comes before other.
func (p Cursor) Before(other Cursor) bool {
	if p == (Cursor{}) || other == (Cursor{}) {
		return p != other && p == (Cursor{})
	}
	return cmp.Or(other.Written.Compare(p.Written), cmp.Compare(other.Tool, p.Tool)) < 0
}

// A Store holds records and their audit. Every implementation passes
// approvaltest.Run. It is safe for concurrent use.
type Store interface {
	// Get returns the record as of every Put that returned before it began,
	// or [ErrNotFound].
	Get(ctx context.Context, id tool.ID) (Record, error)

	// GetWith returns what Get does, and the documents of the keys as [document.Store.Docs] returns them,
	// all of one read. If the error is [ErrNotFound], it returns the documents all the same.
	GetWith(ctx context.Context, id tool.ID, keys ...document.Key) (Record, []document.Doc, error)

	// Peek is Get, but a driver may return what it had a few seconds ago if that costs less. It
	// serves to find out whether anything has to be read at all.
	Peek(ctx context.Context, id tool.ID) (Record, error)

	// Records returns every record of the server, by id, each as of every Put
	// that returned before it began.
	Records(ctx context.Context, server string) ([]Record, error)

	// RecordsIfChanged returns what Records does, and a mark of it. If mark is one that the same
	// Store returned of that server, and no record of the server was written since, it returns
	// [ErrUnchanged] and nothing else, which costs less. A mark of another Store, or another
	// server, is as good as none, "". A write whose outcome is not known counts as one.
	RecordsIfChanged(ctx context.Context, server, mark string) (all []Record, now string, err error)

	// Changes returns the present decision of every record with DecidedAt >= since, the oldest
	// decision first; the zero time returns all. A record that nobody decided about is never among
	// them, whatever a sync writes to it. A driver on a distributed index may show a decision late,
	// so callers ask again from a little before their last read: see [Feed].
	//
	// The answer is a page, the first one if after is "". If next is not "" more follows: it is the
	// after of the next page, also of a later call with the same since.
	Changes(ctx context.Context, since time.Time, after string) (page []Decision, next string, err error)

	// Put stores r and e together, or neither, if the stored revision is still
	// r.Rev (0: must not exist yet), and returns r as [Record.Next] says. It returns
	// [ErrConflict] if another writer came first. A nil e writes no audit line.
	Put(ctx context.Context, r Record, e *Entry) (Record, error)

	// Audit returns at most limit of a server's audit lines, in their order, from after the cursor,
	// which need not be that of a line.
	Audit(ctx context.Context, server string, after Cursor, limit int) ([]Entry, error)
}
