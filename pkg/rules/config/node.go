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
func readTree(data []byte) (*rawjson.Node, *Fault) {
	root, err := rawjson.ParseUTF8(data)
	if err != nil {
		return nil, syntaxFault(data, 0, err)
	}
	return root, Syntax(data) // something may follow
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
