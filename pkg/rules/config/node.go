package config

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// kindName returns the name of a value's kind for fault messages.
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

// readTree reads one JSON text. It stops at a syntax error, which is then the only fault.
func readTree(data []byte) (*rawjson.Node, *Fault) {
	root, err := rawjson.ParseUTF8(data)
	if err != nil {
		return nil, syntaxFault(data, 0, err)
	}
	return root, Syntax(data) // text may follow the end
}

func newDecoder(data []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))
}

// atEnd returns an error unless only white space follows.
func atEnd(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	return errors.New("there is text after the end of the object")
}

// syntaxFault returns the syntax error and its position, with a hint for the most common errors:
// comments and trailing commas.
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
		message = "remove the comma before the closing bracket"
	case errors.Is(err, io.ErrUnexpectedEOF):
		message = "the file ends before the object is closed"
	}
	r := ruler{data: data}
	line, col := r.position(offset)
	return &Fault{Line: line, Col: col, Message: "not JSON: " + message}
}

// A ruler finds lines and columns. It continues from the last position, so that many positions in
// the order of the file cost one pass over the file.
type ruler struct {
	data             []byte
	at, lines, runes int // lines that ended before at, and characters since the last line end
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

// JoinPath appends a member name to a JSON path: a.b, or a["b c"] if a dot would mislead.
func JoinPath(path, name string) string {
	if len(name) > maxKey || !plainKey(name) {
		return path + "[" + text.Quote(name, maxKey) + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// maxKey is how many characters of a member name a path repeats: the longest name of a server or a
// tool is shorter.
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

// clip shortens a text of the file for a fault.
func clip(s string) string { return text.Clip(s, 64) }
