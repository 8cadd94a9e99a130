package catalog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/catalog/search"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/finding"
	"github.com/portcullis-mcp/portcullis/pkg/rules/signature"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// An Input holds everything that a snapshot is built from.
type Input struct {
	Servers []ServerInput // in any order; names are unique
	Words   config.Words  // the operator's extra search words for tools
	Yield   func()        // called between tools, so that other work can run; nil: no pause

	ShardTools int // maximum number of tools and other items in a shard, unless one server has more; 0: 10,000
}

// A ServerInput is one configured server with its tools and other items.
type ServerInput struct {
	Name    string
	Enabled bool
	Tools   []ToolInput // in any order; ids are unique; prompts and resources are among them
	Same    bool        // for [Rebuild]: its tools and records are the same as in the last catalog; Tools is nil
}

// A ToolInput is one tool, or another item, with its approval record.
type ToolInput struct {
	Definition tool.Definition
	Record     *approval.Record // nil: none
}

// Build makes a snapshot. It is pure: the same input gives the same bytes, and the order of servers
// and tools does not matter. No server may have Same set.
func Build(in Input) (*Snapshot, error) { return Rebuild(nil, in) }

// buildShard makes the shard of these servers, which are in the order of their names.
func buildShard(in Input, servers []ServerInput, names finding.Names) (*shard, error) {
	e := &encoder{seen: map[string]int{}, asked: map[uint32]bool{}, yield: in.Yield}
	e.names = names.Noting(func(name string) { e.asked[hashName(name)] = true })
	var serverRows []byte
	var tools, items []namedTool
	bytes := 0 // of definitions
	for _, s := range servers {
		serverRows = e.appendText(serverRows, s.Name)
		serverRows = binary.LittleEndian.AppendUint32(serverRows, boolBit(s.Enabled, 1))
		for _, t := range s.Tools {
			id := t.Definition.ID(s.Name)
			if id.Name == "" {
				return nil, fmt.Errorf("%v %q has no name", id.Kind, id)
			}
			list := &tools
			if id.Kind != tool.Tool {
				list = &items
			}
			*list = append(*list, namedTool{id.String(), s.Name, t})
			bytes += len(t.Definition.Raw)
		}
	}
	e.json.Grow(bytes)
	rows, err := e.appendAll(make([]byte, 0, rowSize*(len(tools)+len(items))), tools)
	if err == nil {
		rows, err = e.appendAll(rows, items)
	}
	if err != nil {
		return nil, err
	}
	ids := make([]tool.ID, len(tools))
	for i, t := range tools {
		ids[i] = t.Definition.ID(t.server)
	}
	index := search.Build(func(yield func(search.Doc) bool) {
		for i, t := range tools {
			e.pause()
			d := t.Definition
			if !yield(search.Doc{Name: d.Name, Server: t.server, Description: d.Description, Schema: d.InputSchema, Words: in.Words.ForTool(ids[i])}) {
				return
			}
		}
	})
	blob, err := e.blob(serverRows, rows, len(tools), len(items), index, hashWords(in.Words, slices.Values(ids)))
	if err != nil {
		return nil, err
	}
	s, err := decodeReader(blob)
	if err != nil {
		return nil, err
	}
	s.sha256 = object.Version(blob)
	return s, nil
}

// blob joins the sections of a shard.
func (e *encoder) blob(serverRows, rows []byte, tools, items int, index []byte, words uint64) ([]byte, error) {
	var asked []byte
	for _, h := range slices.Sorted(maps.Keys(e.asked)) {
		asked = binary.LittleEndian.AppendUint32(asked, h)
	}
	le := binary.LittleEndian
	head := le.AppendUint32([]byte(magic), version)
	head = append(head, 0, 0, 0, 0) // the checksum
	total := headerSize + len(asked)
	for _, n := range []int{len(serverRows) / serverSize, tools, e.text.Len(), e.json.Len(), len(index), len(e.findings) / findingSize} {
		total += n // an under-estimate that is exact for the sections which can be large
		if total > maxBlob {
			return nil, fmt.Errorf("over %d bytes", maxBlob)
		}
		head = le.AppendUint32(head, uint32(n))
	}
	head = le.AppendUint32(head, finding.Version)
	head = le.AppendUint32(head, uint32(items))
	head = le.AppendUint32(head, recipe)
	head = le.AppendUint64(head, words)
	head = le.AppendUint32(head, uint32(len(asked)/askedSize))
	blob := slices.Concat(head, serverRows, rows, e.text.Bytes(), e.json.Bytes(), index, e.findings, asked)
	le.PutUint32(blob[atSum:], checksum(blob))
	return blob, nil
}

// appendAll sorts the tools, or other items, and adds a row for each.
func (e *encoder) appendAll(rows []byte, list []namedTool) ([]byte, error) {
	slices.SortFunc(list, func(a, b namedTool) int { return strings.Compare(a.id, b.id) })
	for i, t := range list {
		if i > 0 && list[i-1].id == t.id {
			return nil, fmt.Errorf("%v %q occurs twice", t.Definition.Kind, t.id)
		}
		e.pause()
		rows = e.appendTool(rows, t)
	}
	return rows, nil
}

// pause lets other work run.
func (e *encoder) pause() {
	if e.yield != nil {
		e.yield()
	}
}

// A namedTool is a tool, or another item, with its sort key.
type namedTool struct {
	id, server string
	ToolInput
}

// An encoder collects the text and json sections. Equal strings share their bytes: an id, a hash or
// a note is stored once for many rows.
type encoder struct {
	text, json bytes.Buffer
	seen       map[string]int // offset of each string in text
	findings   []byte
	names      finding.Names
	asked      map[uint32]bool // hashes of the names that findings depend on
	yield      func()
}

func (e *encoder) appendText(row []byte, s string) []byte {
	at, ok := e.seen[s]
	if !ok && s != "" {
		at = e.text.Len()
		e.seen[s] = at
		e.text.WriteString(s)
	}
	return appendSpan(row, at, len(s))
}

func (e *encoder) appendJSON(row, raw []byte) []byte {
	at := e.json.Len()
	e.json.Write(raw)
	return appendSpan(row, at, len(raw))
}

// appendPart appends the span of part, which occurs in raw, the definition at the end of the json
// section. If part occurs more than once, the span is of the first occurrence.
func (e *encoder) appendPart(row, raw, part []byte) []byte {
	i := bytes.Index(raw, part)
	if i < 0 || len(part) == 0 {
		return e.appendJSON(row, part)
	}
	return appendSpan(row, e.json.Len()-len(raw)+i, len(part))
}

func (e *encoder) appendTool(b []byte, t namedTool) []byte {
	d := t.Definition
	text, own, input, lossy := d.MIMEType, d.Name, d.Arguments, false
	if d.Kind == tool.Tool {
		text, lossy = signature.Render(d.InputSchema, d.OutputSchema)
		own, input = d.Annotations.Title, d.InputSchema
	}
	for _, s := range []string{t.id, d.Title, d.Description, text, string(d.Hash), own} {
		b = e.appendText(b, s)
	}
	b = e.appendJSON(b, d.Raw)
	b = e.appendPart(b, d.Raw, input)
	b = e.appendPart(b, d.Raw, d.OutputSchema)

	flags := boolBit(lossy, flagLossy) | boolBit(d.Template, flagTemplate) | boolBit(tool.CheckDepth(d.Raw) != nil, flagNested)
	for i, hint := range hints(&d.Annotations) {
		if *hint != nil {
			flags |= (1 + boolBit(**hint, 2)) * flagHint << (2 * i)
		}
	}
	var r approval.Record
	if t.Record != nil {
		r = *t.Record
		flags |= flagRecord | boolBit(r.Disabled, flagDisabled)
	}
	var approved []byte
	if r.ApprovedHash != d.Hash {
		approved = r.Approved
	}
	b = e.appendJSON(b, approved)
	for _, s := range []string{string(r.ApprovedHash), string(r.CurrentHash), string(r.State), r.URL, r.By, r.Note} {
		b = e.appendText(b, s)
	}
	for _, at := range []time.Time{r.At, r.FirstSeen, r.DecidedAt, r.UpdatedAt} {
		b = appendTime(b, at)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Rev))
	list := finding.Scan(d, definitionOf(d.Kind, approved), e.names.For(t.server))
	flags |= boolBit(r.Tell, flagTell) | boolBit(finding.Severe(list), flagRisky) | uint32(min(r.Format, math.MaxUint8))<<atRecordFormat
	b = binary.LittleEndian.AppendUint32(b, flags)

	endorsed := r.Endorsement()
	b = e.appendText(b, string(endorsed.Hash))
	b = e.appendText(b, endorsed.By)
	b = e.appendJSON(b, encodeBlocked(r.Blocked))
	b = appendSpan(b, len(e.findings)/findingSize, len(list))
	for _, f := range list {
		e.appendFinding(f)
	}
	return appendTime(b, endorsed.At)
}

// appendFinding adds a row to the findings.
func (e *encoder) appendFinding(f finding.Finding) {
	for _, s := range []string{f.Code, f.Where, f.Text} {
		e.findings = e.appendText(e.findings, s)
	}
	e.findings = appendSpan(e.findings, f.From, f.To)
	e.findings = binary.LittleEndian.AppendUint32(e.findings, boolBit(f.Severe, flagSevere)|boolBit(f.Name, flagName))
}

func appendSpan(b []byte, at, n int) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(at))
	return binary.LittleEndian.AppendUint32(b, uint32(n))
}

func boolBit(v bool, bit uint32) uint32 {
	if v {
		return bit
	}
	return 0
}
