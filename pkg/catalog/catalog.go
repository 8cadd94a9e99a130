// Package catalog holds what every request reads: the definitions of all
// configured tools, what people decided about them, and the search index, as
// one immutable [Snapshot]; and the [Syncer] that makes it from the servers.
//
// A snapshot is one blob that is read in place. A function that starts cold
// opens ten thousand tools in milliseconds because nothing is parsed or indexed
// again; it is stored under its own SHA-256, so what changed nothing stores
// nothing. Whatever is new at each sync although the tools are the same (when each server was
// asked, how long it took, how it ended) stands in [Current], the small object
// that points to the snapshot and moves in one conditional write.
package catalog

import (
	"encoding/json"
	"iter"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/finding"
	"github.com/portcullis-mcp/portcullis/pkg/object"
	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/search"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// A Snapshot is every known tool of the configured servers, in the order of
// the ids' text, and after them every other item, prompts and resources, in that order: an item's
// number is its place. It is immutable and safe for concurrent use; the bytes that
// it hands out must not be changed.
type Snapshot struct {
	blob    []byte // the whole encoding; the other fields point into it
	text    string // copy of its text section, so that strings need no copies
	rows    []byte // its tool rows, then those of other items
	rowSize int
	tools   int                  // how many rows are those of tools
	json    []byte               // its definitions
	found   []byte               // its rows of findings
	rules   int                  // version of the rules by which they were found; 0: they are not known
	names   func() finding.Names // of its tools, collected once, if findings are not known
	servers []Server
	index   *search.Index
	sha256  string // "": not known
	current Current
	etag    string // of the Current object; "" if the snapshot was not loaded
}

// A Tool is what the catalog knows of one tool, or of another item.
type Tool struct {
	ID          tool.ID
	Definition  tool.Definition  // as the server sent it last; Raw lies in the snapshot
	Signature   string           // reads like TypeScript
	Lossy       bool             // the signature leaves something out
	Approval    *approval.Record // without Approved, Current, ApprovedBefore and Undo; nil: no record
	ApprovedRaw json.RawMessage  // the approved definition, if there is one whose hash differs from Hash
	Severe      bool             // one of its findings is severe; see [Snapshot.FindingsKnown]
}

// A Server is a configured server as of the sync.
type Server struct {
	Name    string
	Enabled bool
	Outcome outcome.Outcome // of the last attempt to load it, without Tools; the zero Outcome: never tried
	First   int             // number of its first tool
	Tools   int             // how many it has; they lie side by side

	FirstItem int // number of its first item that is no tool
	Items     int // how many of these it has; they lie side by side, prompts first
}

// Numbers yields the numbers of all items of the server.
func (s Server) Numbers() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range s.Tools + s.Items {
			n := s.First + i
			if i >= s.Tools {
				n = s.FirstItem + i - s.Tools
			}
			if !yield(n) {
				return
			}
		}
	}
}

// Len returns the number of tools. They have the numbers below it.
func (s *Snapshot) Len() int { return s.tools }

// Items returns the number of all items, the tools among them.
func (s *Snapshot) Items() int { return len(s.rows) / s.rowSize }

// Index returns the search index; document i is tool i.
func (s *Snapshot) Index() *search.Index { return s.index }

// SHA256 returns the lower-case hex SHA-256 of the encoding. Snapshots with
// the same one hold the same tools and approval states; outcomes may differ. It is
// known of a snapshot that was built or loaded; for one that [Decode] opened it is computed.
func (s *Snapshot) SHA256() string {
	if s.sha256 == "" {
		return object.Version(s.blob)
	}
	return s.sha256
}

// Current returns what was stored beside the snapshot; the zero Current if it
// was neither loaded nor saved.
func (s *Snapshot) Current() Current { return s.current }

// CreatedAt returns when the sync began that last confirmed the snapshot. What
// people decided before is in it; what they decided since may be missing.
func (s *Snapshot) CreatedAt() time.Time { return s.current.StartedAt }

// Encode returns the snapshot's bytes. [Decode] opens them. They must not be changed.
func (s *Snapshot) Encode() []byte { return s.blob }
