package clientfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/portcullis-mcp/portcullis/pkg/text"
)

// MaxSize is how large a file is that is read, in bytes, at most: Claude Code keeps all else that it knows
// in the same file.
const MaxSize = 64 << 20

const (
	maxDepth = 500
	bom      = "\ufeff"
)

// A node is a value of a file of either format, with its line.
type node struct {
	kind    byte // '{' '[' '"' '0' 't' 'f' 'n'
	text    string
	line    int
	members []member
	elems   []*node
}

type member struct {
	name  string
	line  int
	value *node
}

// member returns the value of a member; nil if there is none, or n is nil.
func (n *node) member(name string) *node {
	if n != nil {
		for _, m := range n.members {
			if m.name == name {
				return m.value
			}
		}
	}
	return nil
}

// equal reports whether two values say the same, wherever they stand.
func (n *node) equal(other *node) bool {
	return n != nil && other != nil && reflect.DeepEqual(n.plain(), other.plain())
}

// plain returns the value without its places.
func (n *node) plain() any {
	switch n.kind {
	case '{':
		out := map[string]any{}
		for _, m := range n.members {
			out[m.name] = m.value.plain()
		}
		return out
	case '[':
		out := make([]any, len(n.elems))
		for i, e := range n.elems {
			out[i] = e.plain()
		}
		return out
	}
	return string(n.kind) + n.text
}

// tooDeep reports whether brackets are open in such a number that a recursive reader should not see them.
func tooDeep(data []byte) bool {
	depth := 0
	for _, b := range data {
		switch b {
		case '{', '[':
			if depth++; depth > maxDepth {
				return true
			}
		case '}', ']':
			depth = max(depth-1, 0)
		}
	}
	return false
}

var hujsonPlace = regexp.MustCompile(`^hujson: line (\d+), column (\d+): `)

// parseJSON reads JSON with comments and trailing commas.
func parseJSON(path string, data []byte) (*node, error) {
	v, err := readJSON(path, data)
	if err != nil {
		return nil, err
	}
	b := builder{path: path, data: bytes.TrimPrefix(data, []byte(bom))}
	n, err := b.node(&v)
	if err == nil && n.kind != '{' {
		err = &Fault{Place{path, n.line}, "holds no JSON object"}
	}
	return n, err
}

// readJSON returns the syntax of a JSON file. Offsets count from behind a byte order mark.
func readJSON(path string, data []byte) (hujson.Value, error) {
	v, err := hujson.Parse(bytes.Clone(bytes.TrimPrefix(data, []byte(bom))))
	if err == nil {
		return v, nil
	}
	f := &Fault{Place: Place{File: path}, Message: "not JSON: " + err.Error()}
	if m := hujsonPlace.FindStringSubmatch(err.Error()); m != nil {
		f.Line, _ = strconv.Atoi(m[1]) // it is digits
		f.Message = fmt.Sprintf("not JSON, at column %s: %s", m[2], text.Clip(text.Line(err.Error()[len(m[0]):]), 200))
	}
	return v, f
}

// A builder makes nodes of JSON. It goes through the file once, to count its lines.
type builder struct {
	path     string
	data     []byte
	at, line int
}

func (b *builder) lineOf(offset int) int {
	if offset = min(offset, len(b.data)); offset > b.at {
		b.line += bytes.Count(b.data[b.at:offset], []byte("\n"))
		b.at = offset
	}
	return b.line + 1
}

func (b *builder) node(v *hujson.Value) (*node, error) {
	n := &node{kind: byte(v.Value.Kind()), line: b.lineOf(v.StartOffset)}
	switch value := v.Value.(type) {
	case *hujson.Object:
		seen := map[string]int{}
		for i := range value.Members {
			m := &value.Members[i]
			name := literal(m.Name.Value)
			line := b.lineOf(m.Name.StartOffset)
			if first, ok := seen[name]; ok {
				return nil, &Fault{Place{b.path, line}, fmt.Sprintf("%s stands here a second time; the first is in line %d", text.Quote(name, 64), first)}
			}
			seen[name] = line
			child, err := b.node(&m.Value)
			if err != nil {
				return nil, err
			}
			n.members = append(n.members, member{name, line, child})
		}
	case *hujson.Array:
		for i := range value.Elements {
			child, err := b.node(&value.Elements[i])
			if err != nil {
				return nil, err
			}
			n.elems = append(n.elems, child)
		}
	default:
		n.text = literal(v.Value)
	}
	return n, nil
}

// literal returns the text of a string, or another literal as it is written.
func literal(v hujson.ValueTrimmed) string {
	l, _ := v.(hujson.Literal)
	var s string
	if l.Kind() == '"' && json.Unmarshal(l, &s) == nil {
		return s
	}
	return strings.TrimSpace(string(l))
}
