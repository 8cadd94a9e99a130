// Package approval keeps what people decided about tools, and binds each decision to the exact
// definition that the person saw. The same rules apply to prompts and resources.
//
// The transitions are pure functions: the same record, event and time give the same new record. A
// [Store] keeps the result. Two writers may have read the same record, so a write names the
// revision that it read. It fails with [ErrConflict] if another write came first.
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

// The errors that callers distinguish.
var (
	ErrNotFound = errors.New("approval record not found")             // the store has no record of the tool
	ErrConflict = errors.New("approval record changed since read")    // caller re-reads and retries
	ErrStale    = errors.New("definition changed since it was shown") // the definition that the person saw is no longer the current one

	ErrUnchanged = errors.New("approval records are the same as before") // caller keeps its result

	// ErrNotBlocked says that there is nothing to unblock.
	ErrNotBlocked = errors.New("definition is not blocked")

	// ErrBlocks says that the record has no room for another block: the caller disables the tool,
	// or unblocks a definition.
	ErrBlocks = errors.New("50 definitions of the tool are blocked, which is the maximum")

	// ErrNoUndo says that it is too late, or that the record has no [Undo] of the decision.
	ErrNoUndo = errors.New("decision cannot be undone")

	// ErrNoSubject says that the person has to sign in with the issuer, which knows their subject.
	ErrNoSubject = errors.New("approval takes two people, and this person's subject is unknown")

	// ErrSamePerson says that another person has to approve.
	ErrSamePerson = errors.New("approval takes two people, and this person approved first")
)

// A State says whether the current definition of a tool is approved.
type State string

// The four states of a record.
const (
	Approved State = "approved"
	Pending  State = "pending"
	Changed  State = "changed"
	Blocked  State = "blocked" // a person refused the current definition permanently
)

// A Mode says which tools wait for a person. The zero Mode is not valid, so that a forgotten Mode
// does not switch approval off.
type Mode string

// The three modes of a server's "approval".
const (
	Manual   Mode = "manual"    // every tool waits
	OnChange Mode = "on_change" // a server's first list is approved automatically
	Off      Mode = "off"       // nothing waits
)

// Format is the newest form of records that this program knows. It grows only if a program that
// knows an earlier form would misread a record. Other new members need no new form, because
// programs keep members that they do not know. Each record uses the earliest form that is safe for
// older programs:
//   - form 1 has none of the following, so that every program can use the record;
//   - form 2 has a block, which a program without blocks would ignore;
//   - form 3 is a prompt or a resource, which a program that knows only tools would read as a tool;
//   - form 4 has a first approval that needs a second person, which a program without the
//     four-eyes rule would accept as the approval.
const Format = 4

// A Record is what people decided about one tool, prompt or resource, and what its server listed.
// It outlives the tool, the server and the config.
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

	// Tell says that agents may read Note, with By as its author.
	Tell bool `json:"tell,omitempty"`

	// Blocked are the hashes that people refused permanently, the newest first, at most 50.
	Blocked []Remembered `json:"blocked,omitempty"`

	// Endorsed is the last approval by a person, never a baseline. Its hash is "" if there was
	// none, or if that definition was blocked since. See [Record.Endorsement].
	Endorsed Remembered `json:"endorsed,omitzero"`

	// Proposed is the approval of the current definition by the first of two people. The definition
	// stays locked. nil: there is none, or one person is enough.
	Proposed *Proposal `json:"proposed,omitempty"`

	Undo *Undo `json:"undo,omitempty"` // what the last decision replaced; nil: no undo

	// ApprovedBefore are the hashes that were approved at this server, the newest first, at most
	// 50. If a server returns to such a definition, the definition waits like any other. People
	// see the earlier approval.
	ApprovedBefore []Remembered `json:"approved_before,omitempty"`

	// Release is the package version of the server at URL; zero: none, or unknown.
	Release Release `json:"release,omitzero"`

	Prior *PriorApproval `json:"prior,omitempty"` // approval at another version of that package; nil: none

	Loss *Loss `json:"lost,omitempty"` // set if the store lost the record, until a person chooses a version; nil: no loss

	FirstSeen time.Time       `json:"first_seen"`
	ChangedAt time.Time       `json:"changed_at,omitzero"` // when the definition was first seen to differ; zero: no change was seen
	DecidedAt time.Time       `json:"decided_at,omitzero"` // when a person last decided; zero: never. [Store.Changes] selects by it
	Rev       int64           `json:"rev"`                 // 0: not stored yet
	UpdatedAt time.Time       `json:"updated_at"`          // set by the store at each Put
	LostRev   int64           `json:"-"`                   // a revision that the store lost; the next revision is higher
	Unknown   rawjson.Members `json:"-"`                   // members of a newer program; a store keeps them
}

// A Remembered is a decision about a definition: an approval or a block.
type Remembered struct {
	Hash tool.Hash `json:"hash"`
	By   string    `json:"by"` // "": unknown
	At   time.Time `json:"at"`
	Note string    `json:"note,omitempty"` // start of the block's note; "": no note, or an approval
	Two  bool      `json:"two,omitempty"`  // By was the second of two people who approved it
}

// A Proposal is the first approval of a definition that needs two people.
type Proposal struct {
	Hash    tool.Hash `json:"hash"`
	By      string    `json:"by"`
	Subject string    `json:"subject"` // subject of this person at the issuer; the second person differs
	At      time.Time `json:"at"`
	Note    string    `json:"note,omitempty"` // the start of the note
}

// An Undo has what a decision replaced, for a few minutes, so that a person can undo it.
type Undo struct {
	Action         string       `json:"action"` // what was decided
	Rev            int64        `json:"rev"`    // revision of the record before the decision
	Disabled       bool         `json:"disabled,omitempty"`
	By             string       `json:"by"`
	At             time.Time    `json:"at,omitzero"`
	Note           string       `json:"note,omitempty"`
	Tell           bool         `json:"tell,omitempty"`
	Blocked        []Remembered `json:"blocked,omitempty"`
	Endorsed       Remembered   `json:"endorsed,omitzero"`
	ApprovedBefore []Remembered `json:"approved_before,omitempty"`
	Loss           *Loss        `json:"lost,omitempty"`
	Proposed       *Proposal    `json:"proposed,omitempty"`

	// Same says that the decision did not change the approved definition, so the record still has
	// it. Otherwise the next two fields have the hash and the bytes of the definition approved
	// before. A driver keeps these bytes next to the record's JSON.
	Same         bool            `json:"same,omitempty"`
	ApprovedHash tool.Hash       `json:"approved_hash,omitempty"`
	Approved     json.RawMessage `json:"-"`
}

// ID returns the id of the item that the record is about.
func (r Record) ID() tool.ID { return tool.ID{Server: r.Server, Name: r.Tool, Kind: r.Kind} }

// Next returns r as a store keeps it after a Put at the given time: at the next revision, and with
// a later UpdatedAt than before even if the clock was set back.
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
	r.Unknown = r.Unknown.Without("last_seen") // earlier versions of the program stored it
	r.Rev = max(r.Rev, r.LostRev) + 1
	r.LostRev = 0
	r.UpdatedAt = later(now, r.UpdatedAt)
	return r
}

// Decision returns the decision of the record, as [Store.Changes] does.
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
	Endorsed     tool.Hash   // hash of [Record.Endorsement]
	ApprovedHash tool.Hash
	CurrentHash  tool.Hash
	DecidedAt    time.Time
}

// applyTo returns r with the decision. r is the record at an earlier revision; nil: unknown. The
// result keeps the definitions of r, and has no author or note of the decision.
func (d Decision) applyTo(r *Record) *Record {
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

// An Entry is one audit line: who did what to which item, and when.
type Entry struct {
	Server string    `json:"server"`
	Tool   string    `json:"tool"`           // as in a [Record]
	Kind   tool.Kind `json:"kind,omitempty"` // as in a [Record]
	Actor  string    `json:"actor"`
	Action string    `json:"action"` // approve, disable, enable, baseline, observe, …
	Hash   tool.Hash `json:"hash,omitempty"`
	From   tool.Hash `json:"from,omitempty"` // approved before, if the decision withdrew the approval
	Note   string    `json:"note,omitempty"`
	Source string    `json:"source,omitempty"` // address that the decision came from; "": not known
	Tell   bool      `json:"tell,omitempty"`   // agents may read the note
	Shown  string    `json:"shown,omitempty"`  // how the actor saw what is approved; "": they did not, or they approve nothing
	At     time.Time `json:"at"`
	Rev    int64     `json:"rev"` // revision of the record after the action; set by the store

	Written time.Time `json:"-"` // when the store wrote the line; set by the store
}

// Line returns e as a store keeps it together with r, the record that the same Put wrote.
func (r Record) Line(e Entry) Entry {
	e.Rev, e.Written = r.Rev, r.UpdatedAt
	return e
}

// A Cursor is a position in the audit of a server. Lines are sorted by time, the newest first, and
// lines of the same time by item, from z to a. The zero Cursor comes before all lines.
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
	// Get returns the record with the changes of every Put that returned before Get began, or
	// [ErrNotFound].
	Get(ctx context.Context, id tool.ID) (Record, error)

	// GetWith returns the result of Get and the documents of the keys, as [document.Store.Docs]
	// returns them, all from one read. If the error is [ErrNotFound], GetWith still returns the
	// documents.
	GetWith(ctx context.Context, id tool.ID, keys ...document.Key) (Record, []document.Doc, error)

	// Peek is Get, but a driver may return a result that is a few seconds old if that costs less.
	// Callers use it to decide whether they need a current read.
	Peek(ctx context.Context, id tool.ID) (Record, error)

	// Records returns every record of the server, sorted by id, with the changes of every Put that
	// returned before Records began.
	Records(ctx context.Context, server string) ([]Record, error)

	// RecordsIfChanged returns the result of Records and a mark, which identifies that result. If
	// the same Store returned the given mark for that server, and no record of the server was
	// written since, RecordsIfChanged returns only [ErrUnchanged], which costs less. A mark of
	// another Store or server has the same effect as "", no mark. A write with an unknown outcome
	// counts as a write.
	RecordsIfChanged(ctx context.Context, server, mark string) (all []Record, now string, err error)

	// Changes returns the present decision of every record with DecidedAt >= since, the oldest
	// decision first; the zero time returns all. It never returns a record without a decision, even
	// if a sync writes it. A driver on a distributed index may show a decision late. So callers
	// start each read a little before their last read, as [Feed] does.
	//
	// The result is one page: the first page if after is "". If next is not "", there are more
	// pages, and a call with next as after returns the next page. Later calls may use next, too, if
	// since is the same.
	Changes(ctx context.Context, since time.Time, after string) (page []Decision, next string, err error)

	// Put stores r and e together, or neither, if the stored revision is still
	// r.Rev (0: must not exist yet), and returns r as [Record.Next] says. It returns
	// [ErrConflict] if another writer came first. A nil e writes no audit line.
	Put(ctx context.Context, r Record, e *Entry) (Record, error)

	// Audit returns the server's audit lines after the cursor, in the order of [Cursor], at most
	// limit lines. The cursor need not be the position of a line.
	Audit(ctx context.Context, server string, after Cursor, limit int) ([]Entry, error)
}
