package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// A node is a JSON value that remembers where it stands, so that a fault found
// long after parsing can still name its line.
type node struct {
	kind    jsontext.Kind // '{' '[' '"' '0' 't' 'f' 'n'
	offset  int           // of its first byte
	text    string        // the string's text, or the number as written
	members []member      // of an object, in the file's order
	elems   []*node       // of an array
	bad     bool          // a fault was reported here; what hangs on the value is not checked
}

// A member is one name and value of an object.
type member struct {
	name   string
	offset int // of the name
	value  *node
}

// member returns the value of the first member of that name, or nil; also if n is nil.
func (n *node) member(name string) *node {
	if n == nil {
		return nil
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
	dec := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true))
	n, err := readNode(dec)
	if err == nil {
		if _, err = dec.ReadToken(); errors.Is(err, io.EOF) {
			return n, nil
		} else if err == nil {
			err = errors.New("something follows the end of the object")
		}
	}
	return nil, syntaxFault(data, int(dec.InputOffset()), err)
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
		raw, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		n := &node{kind: raw.Kind(), offset: int(dec.InputOffset()) - len(raw), text: string(raw)}
		if n.kind == '"' {
			text, err := jsontext.AppendUnquote(nil, raw)
			if err != nil {
				return nil, err
			}
			n.text = string(text)
		}
		return n, nil
	}
}

// readInto reads the next member or element of n.
func (n *node) readInto(dec *jsontext.Decoder) error {
	if n.kind == '[' {
		elem, err := readNode(dec)
		n.elems = append(n.elems, elem)
		return err
	}
	name, err := readNode(dec)
	if err != nil {
		return err
	}
	value, err := readNode(dec)
	n.members = append(n.members, member{name.text, name.offset, value})
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
	line, col := position(data, offset)
	return &Fault{Line: line, Col: col, Message: "not JSON: " + message}
}

// position returns the 1-based line and the 1-based column, in characters, of a byte.
func position(data []byte, offset int) (line, col int) {
	before := data[:min(offset, len(data))]
	start := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[start:]) + 1
}

// JoinPath appends a member name to a JSON path: a.b, or a["b c"] where a dot would mislead.
func JoinPath(path, name string) string {
	if !plainKey(name) {
		return fmt.Sprintf("%s[%q]", path, clip(name))
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

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
func index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// clip cuts what a fault repeats of the file to 64 characters.
func clip(s string) string {
	const limit = 64
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit]) + "…"
}
