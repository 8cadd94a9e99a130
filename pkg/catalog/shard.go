package catalog

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/catalog/search"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A shard is a part of a snapshot: servers that follow each other in the order of their ids, with
// all their items. It is one immutable blob, stored under its own SHA-256; snapshots share it.
type shard struct {
	blob     []byte // the whole encoding; the other fields point into it
	text     string // its text section: the bytes of the blob, which never change
	rows     []byte // its tool rows, then the rows of other items
	rowSize  int
	tools    int      // how many rows are tools
	json     []byte   // its definitions
	found    []byte   // its rows of findings
	rules    int      // version of the rules that found them; 0: not known
	made     int      // [recipe] that made it; 0: an earlier recipe
	words    uint64   // hash of the operator's words for its tools; 0: there are none
	asked    []byte   // hashes of the names that its findings depend on, ascending
	servers  []Server // by name; numbers within the shard
	rawIndex []byte
	index    *search.Index // nil: not opened
	sha256   string        // "": not known
}

// items returns the number of all items of the shard, the tools among them.
func (s *shard) items() int { return len(s.rows) / s.rowSize }

// first returns a lower bound of the texts of ids in the shard.
func (s *shard) first() string {
	least := ""
	for i, server := range s.servers {
		if key := orderOf(server.Name); i == 0 || key < least {
			least = key
		}
	}
	return least
}

// orderOf returns the key that sorts servers in the order of their items' ids.
func orderOf(server string) string { return server + ":" }

// openIndex returns the shard with its search index.
func (s *shard) openIndex() (*shard, error) {
	if s.index != nil {
		return s, nil
	}
	index, err := search.Open(s.rawIndex)
	if err == nil && index.Len() != s.tools {
		err = fmt.Errorf("search index holds %d tools, want %d", index.Len(), s.tools)
	}
	if err != nil {
		return nil, fmt.Errorf("decode catalog: %w: %w", ErrUnusable, err)
	}
	c := *s
	c.index = index
	return &c, nil
}

// sum returns the SHA-256 of the blob.
func (s *shard) sum() string {
	if s.sha256 == "" {
		return object.Version(s.blob)
	}
	return s.sha256
}

func (s *shard) row(i int) []byte { return s.rows[i*s.rowSize : (i+1)*s.rowSize] }

// string returns the text of the span at the start of b.
func (s *shard) string(b []byte) string {
	from, to := span(b)
	return s.text[from:to]
}

// bytes returns the json of the span at the start of b, nil if it is empty.
func (s *shard) bytes(b []byte) json.RawMessage {
	from, to := span(b)
	if from == to {
		return nil
	}
	return s.json[from:to:to]
}

// id returns the id of item i of the shard.
func (s *shard) id(i int) tool.ID {
	text := s.string(s.row(i)[atID:])
	if i >= s.tools {
		id, _ := tool.ParseID(text) // cannot fail: checked when the shard was opened
		return id
	}
	server, name, _ := strings.Cut(text, ":")
	return tool.ID{Server: server, Name: name}
}

// find returns the number in the shard of the item with this text of its id.
func (s *shard) find(text string, kind tool.Kind) (int, bool) {
	first, n := 0, s.tools
	if kind != tool.Tool {
		first, n = s.tools, s.items()-s.tools
	}
	i, ok := sort.Find(n, func(i int) int { return strings.Compare(text, s.string(s.row(first + i)[atID:])) })
	return first + i, ok
}

func (s *shard) findServer(name string) (int, bool) {
	return sort.Find(len(s.servers), func(i int) int { return strings.Compare(name, s.servers[i].Name) })
}

// tool returns item i of the shard.
func (s *shard) tool(i int) Tool {
	row := s.row(i)
	flags := binary.LittleEndian.Uint32(row[atFlags:])
	id := s.id(i)
	t := Tool{
		ID: id,
		Definition: tool.Definition{
			Hash:         tool.Hash(s.string(row[atHash:])),
			Raw:          s.bytes(row[atRaw:]),
			Name:         id.Name,
			Title:        s.string(row[atTitle:]),
			Description:  s.string(row[atDescription:]),
			InputSchema:  s.bytes(row[atInput:]),
			OutputSchema: s.bytes(row[atOutput:]),
		},
		Signature:   s.string(row[atSignature:]),
		Lossy:       flags&flagLossy != 0,
		Approval:    s.record(id, row, flags),
		ApprovedRaw: s.bytes(row[atApproved:]),
		Severe:      flags&flagRisky != 0,
	}
	if id.Kind != tool.Tool {
		s.readItem(&t, row, flags)
		return t
	}
	t.Definition.Annotations = s.annotations(row)
	return t
}

// yes and no are the values that all hints point to. Nobody writes them.
var yes, no = true, false

// annotations returns the annotations of the row's tool.
func (s *shard) annotations(row []byte) tool.Annotations {
	flags, a := binary.LittleEndian.Uint32(row[atFlags:]), tool.Annotations{Title: s.string(row[atAnnotationTitle:])}
	for i, hint := range hints(&a) {
		if said := flags / flagHint >> (2 * i); said&1 != 0 {
			*hint = &no
			if said&2 != 0 {
				*hint = &yes
			}
		}
	}
	return a
}

// readItem corrects t, which was read as a tool, if the row is another item.
func (s *shard) readItem(t *Tool, row []byte, flags uint32) {
	d := &t.Definition
	d.Kind, d.InputSchema, d.OutputSchema, t.Signature = t.ID.Kind, nil, nil, ""
	if d.Kind == tool.Prompt {
		d.Arguments = s.bytes(row[atArguments:])
		return
	}
	d.URI, d.Template = t.ID.Name, flags&flagTemplate != 0
	d.Name, d.MIMEType = s.string(row[atOwnName:]), s.string(row[atMIMEType:])
}

func (s *shard) record(id tool.ID, row []byte, flags uint32) *approval.Record {
	if flags&flagRecord == 0 {
		return nil
	}
	r := new(approval.Record)
	s.readRecord(r, id, row, flags)
	return r
}

// readRecord reads the record of a row that has one.
func (s *shard) readRecord(r *approval.Record, id tool.ID, row []byte, flags uint32) {
	*r = approval.Record{
		Format:       int(flags >> atRecordFormat),
		Server:       id.Server,
		Tool:         id.Name,
		Kind:         id.Kind,
		URL:          s.string(row[atURL:]),
		State:        approval.State(s.string(row[atState:])),
		Disabled:     flags&flagDisabled != 0,
		ApprovedHash: tool.Hash(s.string(row[atApprovedHash:])),
		CurrentHash:  tool.Hash(s.string(row[atCurrentHash:])),
		By:           s.string(row[atBy:]),
		At:           readTime(row[atAt:]),
		Note:         s.string(row[atNote:]),
		FirstSeen:    readTime(row[atFirstSeen:]),
		DecidedAt:    readTime(row[atDecidedAt:]),
		UpdatedAt:    readTime(row[atUpdatedAt:]),
		Rev:          int64(binary.LittleEndian.Uint64(row[atRev:])),
		Tell:         flags&flagTell != 0,
	}
	if len(row) > endOfRow2 {
		r.Endorsed = approval.Remembered{Hash: tool.Hash(s.string(row[atEndorsedHash:])), By: s.string(row[atEndorsedBy:]), At: readTime(row[atEndorsedAt:])}
		r.Blocked, _ = decodeBlocked(s.bytes(row[atBlocked:])) // cannot fail: checked when the shard was opened
	}
}

// depends reports whether a finding in the shard may depend on a tool with a name in the set. names
// has hashes, so depends may return true by mistake, but never false by mistake.
func (s *shard) depends(names map[uint32]bool) bool {
	for at := 0; at < len(s.asked); at += 4 {
		if names[binary.LittleEndian.Uint32(s.asked[at:])] {
			return true
		}
	}
	return false
}
