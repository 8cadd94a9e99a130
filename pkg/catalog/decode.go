package catalog

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/object"
	"github.com/portcullis-mcp/portcullis/pkg/search"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// Decode opens what [Snapshot.Encode] returned, in place: b must not change
// afterwards. Any other bytes give an error that is [ErrUnusable].
func Decode(b []byte) (*Snapshot, error) {
	s, index, err := decode(b)
	if err == nil {
		s.index, err = search.Open(index)
	}
	if err == nil && s.index.Len() != s.Len() {
		err = fmt.Errorf("search index holds %d tools, want %d", s.index.Len(), s.Len())
	}
	if err != nil {
		return nil, fmt.Errorf("decode catalog: %w: %w", ErrUnusable, err)
	}
	return s, nil
}

// decodeBase opens what a sync goes on from: without the search index, which
// this version of the program may not read although it reads the definitions,
// and with its SHA-256 checked, so that the next sync heals what was damaged.
func decodeBase(b []byte) (*Snapshot, error) {
	s, _, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("decode catalog: %w: %w", ErrUnusable, err)
	}
	s.sha256 = object.Version(b)
	return s, nil
}

// decode opens all but the search index, whose bytes it returns.
func decode(b []byte) (s *Snapshot, index []byte, err error) {
	if len(b) < header2Size || string(b[:len(magic)]) != magic {
		return nil, nil, errors.New("not a catalog")
	}
	f, err := formatOf(b)
	if err != nil {
		return nil, nil, err
	}
	if binary.LittleEndian.Uint32(b[atSum:]) != checksum(b) {
		return nil, nil, errors.New("checksum does not match")
	}
	counts, rest := b[atCounts:], b[f.header:]
	var sections [6][]byte
	for i, size := range f.sections {
		count := uint64(binary.LittleEndian.Uint32(counts[4*i:]))
		if i == 1 {
			count += f.items
		}
		n := size * count
		if n > uint64(len(rest)) || n > maxBlob {
			return nil, nil, fmt.Errorf("section %d has %d bytes, %d are left", i, n, len(rest))
		}
		sections[i], rest = rest[:n:n], rest[n:]
	}
	if len(rest) > 0 {
		return nil, nil, fmt.Errorf("%d bytes too many", len(rest))
	}
	s = &Snapshot{
		blob: b,
		text: string(sections[2]),
		rows: sections[1], rowSize: int(f.sections[1]), tools: int(binary.LittleEndian.Uint32(counts[4:])),
		json:  sections[3],
		found: sections[5], rules: f.rules,
	}
	s.names = sync.OnceValue(s.allNames)
	if err := s.readServers(sections[0]); err != nil {
		return nil, nil, err
	}
	if err := s.checkTools(); err != nil {
		return nil, nil, err
	}
	return s, sections[4], nil
}

// A form is how one format differs from others.
type form struct {
	header   int
	sections []uint64 // size of one row of each section
	rules    int
	items    uint64
}

func formatOf(b []byte) (form, error) {
	number := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	switch v, sections := number(atVersion), []uint64{serverSize, rowSize, 1, 1, 1, findingSize}; {
	case v == version2:
		return form{header: header2Size, sections: []uint64{serverSize, endOfRow2, 1, 1, 1}}, nil
	case v != version && v != version3:
		return form{}, fmt.Errorf("format %d, want %d to %d", v, version2, version)
	case len(b) < header3Size || v == version && len(b) < headerSize:
		return form{}, errors.New("header is cut short")
	case v == version3:
		return form{header: header3Size, sections: sections, rules: int(number(atRules))}, nil
	default:
		return form{header: headerSize, sections: sections, rules: int(number(atRules)), items: uint64(number(atItems))}, nil
	}
}

func (s *Snapshot) readServers(rows []byte) error {
	s.servers = make([]Server, len(rows)/serverSize)
	for i := range s.servers {
		row := rows[i*serverSize:]
		if err := checkSpan(row, len(s.text)); err != nil {
			return fmt.Errorf("server %d: %w", i, err)
		}
		s.servers[i] = Server{
			Name:    s.string(row),
			Enabled: binary.LittleEndian.Uint32(row[spanSize:])&1 != 0,
		}
		if i > 0 && s.servers[i-1].Name >= s.servers[i].Name {
			return fmt.Errorf("server %d is out of order", i)
		}
	}
	return nil
}

// checkTools makes sure that no accessor can leave its section, that ids are
// in order, and that each tool has its server; it counts the tools of each, and the items.
func (s *Snapshot) checkTools() error {
	c := rowChecker{Snapshot: s}
	for i := range s.Len() {
		if err := c.row(i); err != nil {
			return fmt.Errorf("tool %d: %w", i, err)
		}
		if c.server.Tools == 0 {
			c.server.First = i
		}
		c.server.Tools++
	}
	c.prev, c.server = "", nil
	for i := s.Len(); i < s.Items(); i++ {
		if err := c.row(i); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
		if s.ID(i).Kind == tool.Tool {
			return fmt.Errorf("item %d is a tool", i)
		}
		if c.server.Items == 0 {
			c.server.FirstItem = i
		}
		c.server.Items++
	}
	return s.checkFindings(c.found)
}

// A rowChecker looks at the rows in their order.
type rowChecker struct {
	*Snapshot
	prev   string  // id of the row before
	server *Server // of that row
	found  int     // findings so far
}

func (c *rowChecker) row(i int) error {
	row, text, json := c.Snapshot.row(i), len(c.text), len(c.json)
	for at := 0; at < endOfSpans; at += spanSize {
		size := text
		if at >= atRaw && at <= atApproved {
			size = json
		}
		if err := checkSpan(row[at:], size); err != nil {
			return err
		}
	}
	if len(row) > endOfRow2 {
		n, err := c.checkAdded(row, c.found)
		if err != nil {
			return err
		}
		c.found = n
	}
	id := c.string(row[atID:])
	if id <= c.prev {
		return errors.New("it is out of order")
	}
	c.prev = id
	name, _, ok := strings.Cut(id, ":")
	if c.server == nil || c.server.Name != name {
		at, found := c.findServer(name)
		if !ok || !found {
			return errors.New("it has no server")
		}
		c.server = &c.servers[at]
	}
	return nil
}

func (s *Snapshot) row(i int) []byte { return s.rows[i*s.rowSize : (i+1)*s.rowSize] }

// string returns the text of the span at the start of b.
func (s *Snapshot) string(b []byte) string {
	from, to := span(b)
	return s.text[from:to]
}

// bytes returns the json of the span at the start of b, nil if it is empty.
func (s *Snapshot) bytes(b []byte) json.RawMessage {
	from, to := span(b)
	if from == to {
		return nil
	}
	return s.json[from:to:to]
}

// ID returns the id of item i.
func (s *Snapshot) ID(i int) tool.ID {
	text := s.string(s.row(i)[atID:])
	if i >= s.tools {
		id, _ := tool.ParseID(text) // it was checked when the snapshot was opened
		return id
	}
	server, name, _ := strings.Cut(text, ":")
	return tool.ID{Server: server, Name: name}
}

// Find returns the number of the tool, or the other item, if the catalog has it.
func (s *Snapshot) Find(id tool.ID) (int, bool) {
	first, n, text := 0, s.Len(), id.String()
	if id.Kind != tool.Tool {
		first, n = s.Len(), s.Items()-s.Len()
	}
	i, ok := sort.Find(n, func(i int) int { return strings.Compare(text, s.string(s.row(first + i)[atID:])) })
	return first + i, ok
}

// Tool returns item i, a tool or another one. Nothing is parsed: its fields point into the snapshot.
func (s *Snapshot) Tool(i int) Tool {
	row := s.row(i)
	flags := binary.LittleEndian.Uint32(row[atFlags:])
	id := s.ID(i)
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
			Annotations:  tool.Annotations{Title: s.string(row[atAnnotationTitle:])},
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
	for i, hint := range hints(&t.Definition.Annotations) {
		if said := flags / flagHint >> (2 * i); said&1 != 0 {
			*hint = new(said&2 != 0)
		}
	}
	return t
}

// readItem puts into t, which was read as a tool, what the row of another item says.
func (s *Snapshot) readItem(t *Tool, row []byte, flags uint32) {
	d := &t.Definition
	d.Kind, d.InputSchema, d.OutputSchema, d.Annotations.Title, t.Signature = t.ID.Kind, nil, nil, "", ""
	if d.Kind == tool.Prompt {
		d.Arguments = s.bytes(row[atArguments:])
		return
	}
	d.URI, d.Template = t.ID.Name, flags&flagTemplate != 0
	d.Name, d.MIMEType = s.string(row[atOwnName:]), s.string(row[atMIMEType:])
}

// Hash returns the hash of the definition of item i.
func (s *Snapshot) Hash(i int) tool.Hash { return tool.Hash(s.string(s.row(i)[atHash:])) }

// Texts returns what item i says of itself to a reader, in which items are searched for a word; input
// is a tool's schema, or a prompt's arguments.
func (s *Snapshot) Texts(i int) (title, description string, input json.RawMessage) {
	row := s.row(i)
	return s.string(row[atTitle:]), s.string(row[atDescription:]), s.bytes(row[atInput:])
}

// Standing returns the state of the approval record of item i, its revision, and when it was
// written. ok is false if there is none.
func (s *Snapshot) Standing(i int) (state approval.State, rev int64, updated time.Time, ok bool) {
	row := s.row(i)
	if binary.LittleEndian.Uint32(row[atFlags:])&flagRecord == 0 {
		return "", 0, time.Time{}, false
	}
	return approval.State(s.string(row[atState:])), int64(binary.LittleEndian.Uint64(row[atRev:])), readTime(row[atUpdatedAt:]), true
}

func (s *Snapshot) record(id tool.ID, row []byte, flags uint32) *approval.Record {
	if flags&flagRecord == 0 {
		return nil
	}
	r := &approval.Record{
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
		r.Blocked, _ = decodeBlocked(s.bytes(row[atBlocked:])) // it was decoded when the snapshot was opened
	}
	return r
}

func (s *Snapshot) findServer(name string) (int, bool) {
	return sort.Find(len(s.servers), func(i int) int { return strings.Compare(name, s.servers[i].Name) })
}

// Servers returns the configured servers by name. The slice must not be changed.
func (s *Snapshot) Servers() []Server { return s.servers }

// Server returns the named server.
func (s *Snapshot) Server(name string) (Server, bool) {
	i, ok := s.findServer(name)
	if !ok {
		return Server{}, false
	}
	return s.servers[i], true
}
