package clientfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// An editor changes one place in the bytes of a JSON file, in the file's layout.
type editor struct {
	mark string // byte order mark
	data []byte // without the mark
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

// splice returns the file with text instead of the given bytes.
func (e *editor) splice(from, to int, text string) []byte {
	return []byte(e.mark + string(e.data[:from]) + text + string(e.data[to:]))
}

// indentAt returns the white space at the beginning of an offset's line.
func (e *editor) indentAt(offset int) string {
	line := e.data[bytes.LastIndexByte(e.data[:offset], '\n')+1 : offset]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// multi reports whether a value has several lines. For an empty value it uses the layout of the
// whole file.
func (e *editor) multi(n *rawjson.Node) bool {
	text := e.data[n.Offset:end(n)]
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

// SetJSON returns a JSON file with another value at the path, or without it if value is nil. The
// parts of the path are names of members and indexes of elements. In a list, a key that is not an
// index appends an element. SetJSON creates missing objects of the path. Everything else stays,
// byte by byte.
func SetJSON(path string, data []byte, at []string, value json.RawMessage) ([]byte, error) {
	root, err := parseJSON(path, data)
	if err != nil {
		return nil, err
	}
	e, n := newEditor(data), root
	for i, key := range at {
		if !n.Object() && !n.Array() {
			return nil, &fault{Place{path, 0}, strings.Join(at[:i], ".") + " is no object"}
		}
		j := slices.Index(n.Keys, key)
		if number, err := strconv.Atoi(key); n.Array() && err == nil {
			j = number
		}
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
		n = n.Kids[j]
	}
	text := e.pretty(value, e.indentAt(n.Offset), e.multi(root))
	return e.splice(n.Offset, end(n), text), nil
}

// start and end return where a member or an element begins and ends.
func start(n *rawjson.Node) int { return cmp.Or(n.NameOffset, n.Offset) }
func end(n *rawjson.Node) int   { return n.Offset + len(n.Raw) }

// gap returns the text between elements before number i: white space, comments and a comma. If i is
// len(n.Kids), it returns the text after the last one.
func gap(n *rawjson.Node, i int) (from, to int) {
	from, to = n.Offset+1, end(n)-1
	if i > 0 {
		from = end(n.Kids[i-1])
	}
	if i < len(n.Kids) {
		to = start(n.Kids[i])
	}
	return from, to
}

const space = " \t\r\n"

var comments = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)

// comma returns the position of the comma in a gap, or -1.
func comma(gap []byte) int {
	return bytes.IndexByte(comments.ReplaceAllFunc(gap, func(comment []byte) []byte {
		return bytes.Repeat([]byte(" "), len(comment))
	}), ',')
}

// insert adds a member or an element after the last one.
func (e *editor) insert(n *rawjson.Node, key string, value json.RawMessage) []byte {
	multi, outer, last := e.multi(n), e.indentAt(n.Offset), len(n.Kids)-1
	indent, lead := outer+e.unit, ""
	if last >= 0 {
		lead = " "
		if at := start(n.Kids[last]); bytes.IndexByte(e.data[n.Offset:at], '\n') >= 0 {
			indent = e.indentAt(at)
		}
	}
	if multi {
		lead = e.nl + indent
	}
	if n.Object() {
		lead += string(encode(key)) + ": "
	}
	text := lead + e.pretty(value, indent, multi)
	from, to := gap(n, last+1)
	comment := bytes.TrimRight(e.data[from:to], space)
	at := from + len(comment)
	switch {
	case last < 0 && multi:
		return e.splice(at, to, text+e.nl+outer)
	case last < 0:
		return e.splice(at, to, text)
	case comma(comment) >= 0:
		return e.splice(at, at, text+",")
	}
	return e.splice(from, at, ","+string(comment)+text)
}

// remove removes the member or element with index i. A comment before it stays.
func (e *editor) remove(n *rawjson.Node, i int) []byte {
	first, at := gap(n, i)
	behind, last := gap(n, i+1)
	before, after := e.data[first:at], e.data[behind:last]
	from := first + len(bytes.TrimRight(before, space))
	switch comma, around := comma(after), slices.Concat(before, after); {
	case len(n.Kids) == 1 && len(bytes.Trim(around, space+",")) == 0:
		return e.splice(first, last, "")
	case comma >= 0: // remove the comma too
		return e.splice(from, behind+comma+1, "")
	case i == 0:
		return e.splice(from, behind, "")
	}
	at = first + comma(before) // of the comma after the element that is now the last
	return e.splice(at, behind, string(e.data[at+1:from]))
}
