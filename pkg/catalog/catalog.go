// Package catalog holds the data that every request reads: the definitions of all configured tools,
// the decisions about them, and the search index, as one immutable [Snapshot]. Its [Syncer] makes
// the snapshot from the servers.
//
// A snapshot consists of shards. A shard is a blob of up to ten thousand tools, from servers that
// are next to each other in the order of ids. Readers use the bytes as they are. So a cold Lambda
// function opens a shard in milliseconds: it neither parses definitions nor builds an index. Each
// shard is stored under its own SHA-256. So a sync without changes stores no shard, and a process
// with the last catalog reads only the shards that changed. The outcomes of each load are new at
// every sync. They are in [Current], a small object that points to the snapshot. One conditional
// write replaces it.
package catalog

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"iter"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/catalog/search"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/finding"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Snapshot has every known tool of the configured servers, ordered by the text of the id, and
// after the tools every prompt and resource in the same order. An item's number is its position. A
// Snapshot is immutable and safe for concurrent use; callers must not change bytes that it returns.
type Snapshot struct {
	shards  []*shard // at least one, in the order of their servers
	firsts  []string // [shard.first] of each shard; "" for the first one
	ends    []counts // numbers of tools and other items up to the end of each shard
	servers []Server
	index   *search.Index        // nil: not opened
	names   func() finding.Names // of its tools, collected once; used if findings are not known
	sha256  string               // "": not known
	missing []interval           // servers of shards that could not be read; see [load]
	current Current
	etag    string // of the Current object; "" if the snapshot was not loaded
}

// counts are numbers of tools and of other items.
type counts struct{ tools, items int }

// A Tool holds the catalog's data about one tool, or about another item.
type Tool struct {
	ID          tool.ID
	Definition  tool.Definition  // as the server sent it last; Raw points into the snapshot
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
	First   int             // item number of its first tool
	Tools   int             // how many tools it has; their item numbers are consecutive

	FirstItem int // item number of its first prompt or resource
	Items     int // how many prompts and resources it has; their item numbers are consecutive, prompts first
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

// newSnapshot returns the snapshot of these shards. If each shard has its search index, the
// snapshot has one, too.
func newSnapshot(shards []*shard) *Snapshot {
	s := &Snapshot{shards: shards, firsts: make([]string, len(shards)), ends: make([]counts, len(shards))}
	var n, all counts
	for _, part := range shards {
		all.tools += part.tools
		all.items += part.items() - part.tools
		s.servers = slices.Grow(s.servers, len(part.servers))
	}
	searchable := make([]*search.Index, 0, len(shards))
	sums := make([]string, len(shards))
	for i, part := range shards {
		for _, server := range part.servers {
			if server.Tools > 0 {
				server.First += n.tools
			}
			if server.Items > 0 {
				server.FirstItem += all.tools + n.items - part.tools
			}
			s.servers = append(s.servers, server)
		}
		n.tools += part.tools
		n.items += part.items() - part.tools
		s.ends[i] = n
		if part.index != nil {
			searchable = append(searchable, part.index)
		}
		if sums[i] = part.sha256; i > 0 {
			s.firsts[i] = part.first()
		}
	}
	slices.SortFunc(s.servers, func(a, b Server) int { return strings.Compare(a.Name, b.Name) })
	if len(searchable) == len(shards) {
		s.index = search.Join(searchable...)
	}
	s.names = sync.OnceValue(s.allNames)
	s.sha256 = digest(sums)
	return s
}

// digest returns the digest of a snapshot whose shards have these SHA-256s: the SHA-256 of the only
// shard, or a SHA-256 over all of them. It returns "" if a SHA-256 is not known.
func digest(sums []string) string {
	if len(sums) == 1 {
		return sums[0]
	}
	if slices.Contains(sums, "") {
		return ""
	}
	return object.Version([]byte(strings.Join(sums, "\n")))
}

// at returns the shard that holds item i, and the item's number there.
func (s *Snapshot) at(i int) (*shard, int) {
	if len(s.shards) == 1 {
		return s.shards[0], i
	}
	if tools := s.Len(); i >= tools {
		i -= tools
		n, _ := slices.BinarySearchFunc(s.ends, i, func(end counts, i int) int { return cmp.Compare(end.items, i+1) })
		if n > 0 {
			i -= s.ends[n-1].items
		}
		return s.shards[n], s.shards[n].tools + i
	}
	n, _ := slices.BinarySearchFunc(s.ends, i, func(end counts, i int) int { return cmp.Compare(end.tools, i+1) })
	if n > 0 {
		i -= s.ends[n-1].tools
	}
	return s.shards[n], i
}

// row returns the row of item i, and the shard that it points into.
func (s *Snapshot) row(i int) (*shard, []byte) {
	part, n := s.at(i)
	return part, part.row(n)
}

// Len returns the number of tools. The tools have the numbers below this number.
func (s *Snapshot) Len() int { return s.ends[len(s.ends)-1].tools }

// Items returns the number of all items, the tools among them.
func (s *Snapshot) Items() int {
	all := s.ends[len(s.ends)-1]
	return all.tools + all.items
}

// ID returns the id of item i.
func (s *Snapshot) ID(i int) tool.ID {
	part, n := s.at(i)
	return part.id(n)
}

// IDText returns the id of item i as the catalog stores it: "server:tool" for a tool. It allocates
// nothing.
func (s *Snapshot) IDText(i int) string {
	part, row := s.row(i)
	return part.string(row[atID:])
}

// ToolID returns the id of tool i, whose server the caller knows. It uses that name, so it reads
// less text, which is faster over many tools.
func (s *Snapshot) ToolID(i int, server string) tool.ID {
	part, row := s.row(i)
	return tool.ID{Server: server, Name: part.string(row[atID:])[len(server)+1:]}
}

// shardOf returns the index of the only shard that can have the item with this id.
func (s *Snapshot) shardOf(text string) int {
	at, exact := slices.BinarySearch(s.firsts, text)
	if !exact {
		at--
	}
	return max(at, 0)
}

// Find returns the number of the tool, or the other item, if the catalog has it.
func (s *Snapshot) Find(id tool.ID) (int, bool) {
	text := id.String()
	at := s.shardOf(text)
	n, ok := s.shards[at].find(text, id.Kind)
	if !ok {
		return 0, false
	}
	var before counts
	if at > 0 {
		before = s.ends[at-1]
	}
	if id.Kind != tool.Tool {
		return s.Len() + before.items + n - s.shards[at].tools, true
	}
	return before.tools + n, true
}

// Tool returns item i, which may be a prompt or a resource, too. It parses nothing, because the
// fields of the result point into the snapshot.
func (s *Snapshot) Tool(i int) Tool {
	part, n := s.at(i)
	return part.tool(n)
}

// A Reviewed has the fields of a [Tool] that decide whether it may be called.
type Reviewed struct {
	ID          tool.ID
	Hash        tool.Hash // of the definition
	Severe      bool
	Nested      bool // it is nested too deeply, so nobody can call it
	Approval    *approval.Record
	ApprovedRaw json.RawMessage
}

// Reviewed returns the fields of item i, which has this id. It writes the record, if there is one,
// to room, so that a loop over all items needs memory for one record.
func (s *Snapshot) Reviewed(i int, id tool.ID, room *approval.Record) Reviewed {
	part, row := s.row(i)
	flags := binary.LittleEndian.Uint32(row[atFlags:])
	r := Reviewed{
		ID: id, Hash: tool.Hash(part.string(row[atHash:])),
		ApprovedRaw: part.bytes(row[atApproved:]),
		Severe:      flags&flagRisky != 0, Nested: flags&flagNested != 0,
	}
	if flags&flagRecord != 0 {
		part.readRecord(room, id, row, flags)
		r.Approval = room
	}
	return r
}

// Hash returns the hash of the definition of item i.
func (s *Snapshot) Hash(i int) tool.Hash {
	part, row := s.row(i)
	return tool.Hash(part.string(row[atHash:]))
}

// Raw returns the definition of item i without an allocation.
func (s *Snapshot) Raw(i int) json.RawMessage {
	part, row := s.row(i)
	return part.bytes(row[atRaw:])
}

// Annotations returns the annotations of tool i.
func (s *Snapshot) Annotations(i int) tool.Annotations {
	part, row := s.row(i)
	return part.annotations(row)
}

// Texts returns the texts of item i in which a reader can search; input is a tool's schema, or a
// prompt's arguments.
func (s *Snapshot) Texts(i int) (title, description string, input json.RawMessage) {
	part, row := s.row(i)
	return part.string(row[atTitle:]), part.string(row[atDescription:]), part.bytes(row[atInput:])
}

// Brief returns the fields of tool i for a compact answer.
func (s *Snapshot) Brief(i int) (signature string, lossy bool, description string) {
	part, row := s.row(i)
	lossy = binary.LittleEndian.Uint32(row[atFlags:])&flagLossy != 0
	return part.string(row[atSignature:]), lossy, part.string(row[atDescription:])
}

// ApprovalState returns the state of the approval record of item i, its revision, and when it was
// written. ok is false if there is none.
func (s *Snapshot) ApprovalState(i int) (state approval.State, rev int64, updated time.Time, ok bool) {
	part, row := s.row(i)
	if binary.LittleEndian.Uint32(row[atFlags:])&flagRecord == 0 {
		return "", 0, time.Time{}, false
	}
	rev = int64(binary.LittleEndian.Uint64(row[atRev:]))
	return approval.State(part.string(row[atState:])), rev, readTime(row[atUpdatedAt:]), true
}

// Servers returns the configured servers by name. The slice must not be changed.
func (s *Snapshot) Servers() []Server { return s.servers }

// Server returns the named server.
func (s *Snapshot) Server(name string) (Server, bool) {
	i, ok := sort.Find(len(s.servers), func(i int) int { return strings.Compare(name, s.servers[i].Name) })
	if !ok {
		return Server{}, false
	}
	return s.servers[i], true
}

// Index returns the search index; document i is tool i.
func (s *Snapshot) Index() *search.Index { return s.index }

// SHA256 returns a lower-case hex SHA-256 over the encoding: the SHA-256 of the only shard, or a
// SHA-256 over the digests of all shards. Snapshots with the same digest hold the same tools and
// approval states; outcomes may differ. A snapshot that was built or loaded has its digest. For a
// snapshot from [Decode], SHA256 computes the digest.
func (s *Snapshot) SHA256() string {
	if s.sha256 != "" {
		return s.sha256
	}
	sums := make([]string, len(s.shards))
	for i, part := range s.shards {
		sums[i] = part.sum()
	}
	return digest(sums)
}

// MemoryNeeded returns the memory in MB that a function behind /mcp or /admin should have for a
// catalog of size bytes. The program needs about 30 MB, and reading and searching a catalog needs
// 1.8 times its size (docs/scale.md). A quarter is added for requests.
func MemoryNeeded(size int) int { return (30 + int(1.8*float64(size)/(1<<20))) * 5 / 4 }

// SyncMemoryNeeded is [MemoryNeeded] for a function that syncs. In addition, this function holds
// connections, the definitions of all servers, and the records. It needs 40 MB and 3 times the size
// of the catalog (docs/scale.md).
func SyncMemoryNeeded(size int) int { return (40 + int(3*float64(size)/(1<<20))) * 5 / 4 }

// Size returns how many bytes the snapshot has, all shards together.
func (s *Snapshot) Size() (n int) {
	for _, part := range s.shards {
		n += len(part.blob)
	}
	return n
}

// Current returns the Current that points to the snapshot, or the zero Current if the snapshot was
// neither loaded nor saved.
func (s *Snapshot) Current() Current { return s.current }

// CreatedAt returns the start time of the last sync that confirmed the snapshot. The snapshot has
// all decisions from before that time; later decisions may be missing.
func (s *Snapshot) CreatedAt() time.Time { return s.current.StartedAt }

// Encode returns the bytes of the first shard, which must not be changed. [Decode] opens the bytes
// of a snapshot with one shard.
func (s *Snapshot) Encode() []byte { return s.shards[0].blob }
