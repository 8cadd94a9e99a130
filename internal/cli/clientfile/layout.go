package clientfile

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
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
		text := bytes.TrimLeft(line, " \t")
		if len(text) < len(line) && bytes.HasPrefix(text, []byte(`"`)) {
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
	key        string // its name, or its number in a list
	value      *hujson.Value
	before     hujson.Extra
	start, end int // without what stands around it
	after      hujson.Extra
}

// items returns those of an object or a list, what stands behind the last of them or behind its
// comma, and whether it has one.
func items(v *hujson.Value) (out []item, tail hujson.Extra, comma bool) {
	switch c := v.Value.(type) {
	case *hujson.Object:
		for i := range c.Members {
			name, value := &c.Members[i].Name, &c.Members[i].Value
			key, _ := name.Value.(hujson.Literal)
			out = append(out, item{
				key.String(), value,
				name.BeforeExtra, name.StartOffset, value.EndOffset, value.AfterExtra,
			})
		}
		tail = c.AfterExtra
	case *hujson.Array:
		for i := range c.Elements {
			e := &c.Elements[i]
			out = append(out, item{
				strconv.Itoa(i), e, e.BeforeExtra, e.StartOffset, e.EndOffset, e.AfterExtra,
			})
		}
		tail = c.AfterExtra
	}
	return out, tail, len(out) > 0 && out[len(out)-1].after != nil
}

// SetJSON returns a JSON file with another value at the path; nil: without the value. The parts of
// the path are names of members and numbers of elements; in a list any other key is behind the last
// element. Objects on the way are made. Everything else stays, byte by byte.
func SetJSON(path string, data []byte, at []string, value json.RawMessage) ([]byte, error) {
	root, err := readJSON(path, data)
	if err != nil {
		return nil, err
	}
	e, n := newEditor(data), &root
	for i, key := range at {
		if _, isLiteral := n.Value.(hujson.Literal); isLiteral {
			return nil, &fault{Place{path, 0}, strings.Join(at[:i], ".") + " is no object"}
		}
		list, _, _ := items(n)
		j := slices.IndexFunc(list, func(it item) bool { return it.key == key })
		switch {
		case j < 0 && value == nil:
			return data, nil
		case j < 0:
			for _, inner := range slices.Backward(at[i+1:]) {
				value = json.RawMessage("{" + string(encode(inner)) + ":" + string(value) + "}")
			}
			return e.insert(n, key, value), nil
		case i == len(at)-1 && value == nil:
			return e.remove(n, j), nil
		}
		n = list[j].value
	}
	text := e.pretty(value, e.indentAt(n.StartOffset), e.multi(&root))
	return e.splice(n.StartOffset, n.EndOffset, text), nil
}

// insert adds an item behind the last one.
func (e *editor) insert(v *hujson.Value, key string, value json.RawMessage) []byte {
	list, tail, comma := items(v)
	multi := e.multi(v)
	outer := e.indentAt(v.StartOffset)
	indent := outer + e.unit
	if len(list) > 0 {
		last := list[len(list)-1].start
		if bytes.IndexByte(e.data[v.StartOffset:last], '\n') >= 0 {
			indent = e.indentAt(last)
		}
	}
	lead, end := e.nl+indent, ""
	if !multi {
		lead = ""
	}
	text := e.pretty(value, indent, multi)
	if v.Value.Kind() == '{' {
		text = string(encode(key)) + ": " + text
	}
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
	// A comment that stands before it stays.
	from := this.start - len(before) + len(bytes.TrimRight(before, " \t\r\n"))
	around := slices.Concat(before, this.after, tail)
	switch {
	case len(list) == 1 && len(bytes.TrimSpace(around)) == 0:
		return e.splice(v.StartOffset+1, v.EndOffset-1, "")
	case i < len(list)-1 || comma: // with the comma behind it
		return e.splice(from, this.end+len(this.after)+1, "")
	case len(list) == 1:
		return e.splice(from, this.end, "")
	}
	at := list[i-1].end + len(list[i-1].after) // of the comma before it
	return e.splice(at, this.end, string(e.data[at+1:from]))
}
