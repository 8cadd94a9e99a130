// Package approval keeps what people decided about tools, and binds each
// decision to the exact definition that the person saw.
//
// The transitions are pure functions of a record: the same record, the same
// event, the same time give the same new record. A [Store] keeps the result;
// because two writers may hold the same record at once, a write names the
// revision it read and fails with [ErrConflict] if another came first.
package approval

import (
	"context"
	"encoding/json"
	"errors"
	"time"

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

// A Record is what is known and was decided about one tool. Records outlive
// the tool, the server and the config.
type Record struct {
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

	FirstSeen time.Time `json:"first_seen"`
	LastSeen  time.Time `json:"last_seen"`
	Rev       int64     `json:"rev"`        // 0: not stored yet
	UpdatedAt time.Time `json:"updated_at"` // set by the store at each Put; what Changes goes by
}

// A Remembered is an approval that was given once.
type Remembered struct {
	Hash tool.Hash `json:"hash"`
	By   string    `json:"by"` // "": not known
	At   time.Time `json:"at"`
}

// ID returns the record's tool id.
func (r Record) ID() tool.ID { return tool.ID{Server: r.Server, Name: r.Tool} }

// An Entry is one audit line: who did what to which tool, when.
type Entry struct {
	Server string    `json:"server"`
	Tool   string    `json:"tool"`
	Actor  string    `json:"actor"`
	Action string    `json:"action"` // approve, disable, enable, baseline, observe, …
	Hash   tool.Hash `json:"hash,omitempty"`
	Note   string    `json:"note,omitempty"`
	At     time.Time `json:"at"`
	Rev    int64     `json:"rev"` // the revision that the deed made; set by the store
}

// A Store holds records and their audit. Every implementation passes
// approvaltest.Run. It is safe for concurrent use.
type Store interface {
	// Get returns the record as of every Put that returned before it began,
	// or [ErrNotFound].
	Get(ctx context.Context, id tool.ID) (Record, error)

	// Changes returns every record with UpdatedAt >= since, oldest first; the
	// zero time returns all. A driver on a distributed index may show a
	// record late, so callers ask again from a little before the newest they hold.
	Changes(ctx context.Context, since time.Time) ([]Record, error)

	// Put stores r and e together, or neither, if the stored revision is still
	// r.Rev (0: must not exist yet), and returns r at its new Rev and
	// UpdatedAt. It returns [ErrConflict] if another writer came first. A nil e writes no audit line
	// (a last-seen update).
	Put(ctx context.Context, r Record, e *Entry) (Record, error)

	// Audit returns a server's audit lines, newest first, at most limit.
	Audit(ctx context.Context, server string, limit int) ([]Entry, error)
}
