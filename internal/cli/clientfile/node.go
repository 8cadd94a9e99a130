package clientfile

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"

	"github.com/tailscale/hujson"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// MaxSize is the maximum size of a file, in bytes. The maximum is large because Claude Code keeps
// all its state in the same file.
const MaxSize = 64 << 20

const (
	maxDepth = 500
	bom      = "\ufeff"
)

// lines finds the line of an offset in a file. It starts to count at the offset of the last call.
type lines struct {
	data       []byte
	at, before int // an offset, and the number of lines before it
}

// newLines returns the lines of a file. Offsets start after a byte order mark.
func newLines(data []byte) lines { return lines{data: bytes.TrimPrefix(data, []byte(bom))} }

func (l *lines) lineOf(offset int) int {
	offset = min(offset, len(l.data))
	l.before += bytes.Count(l.data[min(l.at, offset):offset], []byte("\n"))
	l.before -= bytes.Count(l.data[offset:max(l.at, offset)], []byte("\n"))
	l.at = offset
	return l.before + 1
}

// equal reports whether two values are equal, even if they are at different places in the file.
func equal(a, b *rawjson.Node) bool {
	if a == nil || b == nil || a.Kind != b.Kind || a.Text != b.Text || len(a.Kids) != len(b.Kids) {
		return a == b
	}
	members := b.Members()
	for i, kid := range a.Kids {
		other := b.Kids[i]
		if a.Object() {
			other = members[a.Keys[i]]
		}
		if !equal(kid, other) {
			return false
		}
	}
	return true
}

// tooDeep reports whether the brackets are nested too deeply for a recursive reader.
func tooDeep(data []byte) bool {
	for depth := 0; len(data) > 0 && depth <= maxDepth; {
		n := 1
		switch data[0] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			for n < len(data) && data[n] != '"' {
				if data[n] == '\\' {
					n++
				}
				n++
			}
			n++
		case '/':
			comment := data[min(2, len(data)):]
			switch end := data[:len(data)-len(comment)]; string(end) {
			case "//":
				n += 1 + bytes.IndexByte(comment, '\n')
			case "/*":
				n += 3 + bytes.Index(comment, []byte("*/"))
			}
		}
		data = data[min(n, len(data)):]
	}
	return len(data) > 0
}

var hujsonPlace = regexp.MustCompile(`^hujson: line (\d+), column (\d+): `)

// parseJSON reads JSON with comments and trailing commas.
func parseJSON(path string, data []byte) (*rawjson.Node, error) {
	v, err := readJSON(path, data)
	if err != nil {
		return nil, err
	}
	v.Standardize() // this keeps all offsets
	root, err := rawjson.Parse(v.Pack())
	if err != nil {
		return nil, &fault{Place{path, 0}, "not JSON: " + err.Error()}
	}
	at := newLines(data)
	if !root.Object() {
		return nil, &fault{Place{path, at.lineOf(root.Offset)}, "is not a JSON object"}
	}
	return root, complete(path, root, &at)
}

// complete refuses duplicate names, and sets the text of each value that is not an object, array or
// string to its source.
func complete(path string, n *rawjson.Node, at *lines) error {
	switch n.Kind {
	case '"':
	case '{':
		seen := make(map[string]int, len(n.Keys)) // offsets of names
		for name, value := range n.All() {
			if first, ok := seen[name]; ok {
				line := at.lineOf(value.NameOffset)
				name = text.Quote(name, 64)
				return &fault{Place{path, line}, fmt.Sprintf(
					"%s is here a second time; the first is in line %d", name, at.lineOf(first))}
			}
			seen[name] = value.NameOffset
			if err := complete(path, value, at); err != nil {
				return err
			}
		}
	case '[':
		for _, kid := range n.Kids {
			if err := complete(path, kid, at); err != nil {
				return err
			}
		}
	default:
		n.Text = string(n.Raw)
	}
	return nil
}

// readJSON returns the syntax tree of a JSON file. Offsets start after a byte order mark.
func readJSON(path string, data []byte) (hujson.Value, error) {
	v, err := hujson.Parse(bytes.Clone(bytes.TrimPrefix(data, []byte(bom))))
	if err == nil {
		return v, nil
	}
	f := &fault{Place: Place{File: path}, Message: "not JSON: " + err.Error()}
	if m := hujsonPlace.FindStringSubmatch(err.Error()); m != nil {
		f.Line, _ = strconv.Atoi(m[1]) // m[1] has only digits
		what := text.Clip(text.Line(err.Error()[len(m[0]):]), 200)
		f.Message = fmt.Sprintf("not JSON, at column %s: %s", m[2], what)
	}
	return v, f
}
