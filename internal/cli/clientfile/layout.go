package clientfile

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// An editor changes the bytes of a JSON file in one place, in the layout that the file has.
type editor struct {
	mark string // byte order mark
	data []byte // without it
	nl   string
	unit string // of indentation
}

func newEditor(data []byte) *editor {
	e := &editor{data: bytes.TrimPrefix(data, []byte(bom)), nl: "\n", unit: "  "}
	if len(e.data) < len(data) {
		e.mark = bom
	}
	if bytes.Contains(e.data, []byte("\r\n")) {
		e.nl = "\r\n"
	}
	for line := range bytes.Lines(e.data) {
		if text := bytes.TrimLeft(line, " \t"); len(text) < len(line) && len(bytes.TrimSpace(text)) > 0 && text[0] == '"' {
			e.unit = string(line[:len(line)-len(text)])
			break
		}
	}
	return e
}

// splice returns the file with text in the place of some bytes.
func (e *editor) splice(from, to int, text string) []byte {
	return []byte(e.mark + string(e.data[:from]) + text + string(e.data[to:]))
}

// indentAt returns the white space that the line of an offset begins with.
func (e *editor) indentAt(offset int) string {
	line := e.data[bytes.LastIndexByte(e.data[:offset], '\n')+1 : offset]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// multi reports whether a value is laid out over lines. What is empty is laid out as the file.
func (e *editor) multi(v *hujson.Value) bool {
	text := e.data[v.StartOffset:v.EndOffset]
	if len(bytes.TrimSpace(bytes.Trim(text, "{}[]"))) == 0 {
		text = e.data
	}
	return bytes.IndexByte(bytes.TrimSpace(text), '\n') >= 0 || len(bytes.TrimSpace(e.data)) == 2
}

// pretty returns JSON in the layout of the file.
func (e *editor) pretty(value json.RawMessage, indent string, multi bool) string {
	if !multi {
		var b bytes.Buffer
		if json.Compact(&b, value) != nil {
			return string(value)
		}
		return b.String()
	}
	return strings.ReplaceAll(rawjson.Indent(value, indent, e.unit), "\n", e.nl)
}

// An item is a member of an object or an element of a list.
type item struct {
	before     hujson.Extra
	start, end int // without what stands around it
	after      hujson.Extra
}

// items returns those of a composite, what stands behind the last of them or behind its comma, and whether it
// has one.
func items(v *hujson.Value) (out []item, tail hujson.Extra, comma bool) {
	switch c := v.Value.(type) {
	case *hujson.Object:
		for i := range c.Members {
			m := &c.Members[i]
			out = append(out, item{m.Name.BeforeExtra, m.Name.StartOffset, m.Value.EndOffset, m.Value.AfterExtra})
		}
		tail = c.AfterExtra
	case *hujson.Array:
		for i := range c.Elements {
			e := &c.Elements[i]
			out = append(out, item{e.BeforeExtra, e.StartOffset, e.EndOffset, e.AfterExtra})
		}
		tail = c.AfterExtra
	}
	return out, tail, len(out) > 0 && out[len(out)-1].after != nil
}

// insert adds an item behind the last one.
func (e *editor) insert(v *hujson.Value, name string, value json.RawMessage) []byte {
	list, tail, comma := items(v)
	multi := e.multi(v)
	outer := e.indentAt(v.StartOffset)
	indent := outer + e.unit
	if len(list) > 0 {
		if last := list[len(list)-1]; bytes.IndexByte(e.data[v.StartOffset:last.start], '\n') >= 0 {
			indent = e.indentAt(last.start)
		}
	}
	lead, end := e.nl+indent, ""
	if !multi {
		lead = ""
	}
	text := name + e.pretty(value, indent, multi)
	if len(list) == 0 {
		if multi {
			end = e.nl + outer
		}
		at := v.StartOffset + 1 + len(bytes.TrimRight(tail, " \t\r\n"))
		return e.splice(at, v.EndOffset-1, lead+text+end)
	}
	last := list[len(list)-1]
	if !multi {
		lead = " "
	}
	comment := bytes.TrimRight(tail, " \t\r\n")
	if comma {
		at := last.end + len(last.after) + 1 + len(comment)
		return e.splice(at, at, lead+text+",")
	}
	return e.splice(last.end, last.end+len(comment), ","+string(comment)+lead+text)
}

// remove takes the item with number i out.
func (e *editor) remove(v *hujson.Value, i int) []byte {
	list, tail, comma := items(v)
	this := list[i]
	before := this.before
	from := this.start - len(before) + len(bytes.TrimRight(before, " \t\r\n")) // behind a comment that stands before it
	switch {
	case len(list) == 1 && len(bytes.TrimSpace(before))+len(bytes.TrimSpace(this.after))+len(bytes.TrimSpace(tail)) == 0:
		return e.splice(v.StartOffset+1, v.EndOffset-1, "")
	case i < len(list)-1 || comma: // with the comma behind it
		return e.splice(from, this.end+len(this.after)+1, "")
	case len(list) == 1:
		return e.splice(from, this.end, "")
	}
	at := list[i-1].end + len(list[i-1].after)
	return []byte(e.mark + string(e.data[:at]) + string(e.data[at+1:from]) + string(e.data[this.end:]))
}
