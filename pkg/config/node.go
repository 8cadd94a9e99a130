package config

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/portcullis-mcp/portcullis/pkg/text"
)

// A node is a JSON value that remembers where it stands, so that a fault found
// long after parsing can still name its line.
type node struct {
	kind    jsontext.Kind    // '{' '[' '"' '0' 't' 'f' 'n'
	offset  int              // of its first byte
	text    string           // the string's text, or the number as written
	members []member         // of an object, in the file's order
	elems   []*node          // of an array
	bad     bool             // a fault was reported here; what hangs on the value is not checked
	byName  map[string]*node // members by name, once there were many and one was asked for
}

// A member is one name and value of an object.
type member struct {
	name   string
	offset int // of the name
	value  *node
}

// member returns the value of the first member of that name, or nil; also if n is nil.
func (n *node) member(name string) *node {
	const few = 16
	if n == nil {
		return nil
	}
	if len(n.members) > few {
		if n.byName == nil {
			n.byName = make(map[string]*node, len(n.members))
			for _, m := range slices.Backward(n.members) {
				n.byName[m.name] = m.value
			}
		}
		return n.byName[name]
	}
	for _, m := range n.members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// kindName says what a value is, in a fault's words.
func kindName(k jsontext.Kind) string {
	switch k {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't', 'f':
		return "true or false"
	}
	return "null"
}

// readTree reads one JSON text. A syntax error ends the reading, so it comes alone.
func readTree(data []byte) (*node, *Fault) {
	dec := newDecoder(data)
	n, err := readNode(dec)
	if err == nil {
		err = atEnd(dec)
	}
	if err != nil {
		return nil, syntaxFault(data, int(dec.InputOffset()), err)
	}
	return n, nil
}

func newDecoder(data []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))
}

// atEnd returns an error unless nothing but white space follows what was read.
func atEnd(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	return errors.New("something follows the end of the object")
}

func readNode(dec *jsontext.Decoder) (*node, error) {
	switch kind := dec.PeekKind(); kind {
	case '{', '[':
		if _, err := dec.ReadToken(); err != nil {
			return nil, err
		}
		n := &node{kind: kind, offset: int(dec.InputOffset()) - 1}
		for dec.PeekKind() != kind+2 { // '{' and '}', '[' and ']' lie two apart
			if err := n.readInto(dec); err != nil {
				return nil, err
			}
		}
		_, err := dec.ReadToken()
		return n, err
	default:
		text, offset, err := readScalar(dec)
		return &node{kind: kind, offset: offset, text: text}, err
	}
}

// readScalar reads a string, number or literal, and where it begins.
func readScalar(dec *jsontext.Decoder) (text string, offset int, err error) {
	raw, err := dec.ReadValue()
	if err != nil {
		return "", 0, err
	}
	offset = int(dec.InputOffset()) - len(raw)
	if raw.Kind() != '"' {
		return string(raw), offset, nil
	}
	if inside := raw[1 : len(raw)-1]; bytes.IndexByte(inside, '\\') < 0 {
		return string(inside), offset, nil // the decoder has checked that it is UTF-8
	}
	unquoted, err := jsontext.AppendUnquote(nil, raw)
	return string(unquoted), offset, err
}

// readInto reads the next member or element of n.
func (n *node) readInto(dec *jsontext.Decoder) error {
	if n.kind == '[' {
		elem, err := readNode(dec)
		n.elems = append(n.elems, elem)
		return err
	}
	name, offset, err := readScalar(dec)
	if err != nil {
		return err
	}
	value, err := readNode(dec)
	n.members = append(n.members, member{name, offset, value})
	return err
}

// syntaxFault says what is not JSON, and where, with a hint for what people
// write most often: comments and trailing commas.
func syntaxFault(data []byte, offset int, err error) *Fault {
	message := err.Error()
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		offset, message = int(e.ByteOffset), e.Err.Error()
	}
	offset = min(offset, len(data))
	rest := data[offset:]
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		message = "the file is empty"
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		message = "the file begins with a byte order mark; save it as UTF-8 without one"
	case bytes.HasPrefix(rest, []byte("/")), bytes.HasPrefix(rest, []byte("#")):
		message = "comments are not part of JSON; remove them"
	case bytes.HasPrefix(rest, []byte(",")) && bytes.IndexAny(bytes.TrimSpace(rest[1:]), "]}") == 0:
		message = "a comma may not stand before the closing bracket"
	case errors.Is(err, io.ErrUnexpectedEOF):
		message = "the file ends before the object is closed"
	}
	r := ruler{data: data}
	line, col := r.position(offset)
	return &Fault{Line: line, Col: col, Message: "not JSON: " + message}
}

// A ruler finds lines and columns. It goes on from the place that was asked for last, so
// that many places in the order of the file cost no more than the file's length.
type ruler struct {
	data             []byte
	at, lines, runes int // lines that ended before at, and characters since
}

// position returns the 1-based line and the 1-based column, in characters, of a byte.
func (r *ruler) position(offset int) (line, col int) {
	offset = min(offset, len(r.data))
	if offset < r.at {
		*r = ruler{data: r.data}
	}
	passed := r.data[r.at:offset]
	if end := bytes.LastIndexByte(passed, '\n'); end >= 0 {
		r.lines += bytes.Count(passed, []byte("\n"))
		r.runes, passed = 0, passed[end+1:]
	}
	r.runes += utf8.RuneCount(passed)
	r.at = offset
	return r.lines + 1, r.runes + 1
}

// JoinPath appends a member name to a JSON path: a.b, or a["b c"] where a dot would mislead.
func JoinPath(path, name string) string {
	if len(name) > maxKey || !plainKey(name) {
		return path + "[" + text.Quote(name, maxKey) + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// maxKey is how many characters of a member name a path repeats: more than the name of
// a server or a tool may have.
const maxKey = 200

// plainKey reports whether a member name reads well after a dot.
func plainKey(name string) bool {
	for i, r := range name {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '_' || r == '$'
		if !letter && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			return false
		}
	}
	return name != ""
}

// index appends an array index to a JSON path.
func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// clip cuts what a fault repeats of the file.
func clip(s string) string { return text.Clip(s, 64) }
