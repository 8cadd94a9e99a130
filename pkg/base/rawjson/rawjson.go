// Package rawjson reads and changes JSON objects, and keeps the bytes of all other values.
//
// If a gateway decodes and encodes the messages that it forwards, it rounds large integers, drops
// unknown fields, and reorders the others. Split divides an object into its members without
// changing their values. An [Object] is written with the same bytes. [Members] are for stored
// objects: they keep the members that this version of the program does not know, and write them
// back.
package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

var (
	// ErrNotObject says that a text is JSON, but not an object.
	ErrNotObject = errors.New("not a JSON object")
	// ErrDuplicateName says, in Strict mode, that a name occurs twice in an object.
	ErrDuplicateName = jsontext.ErrDuplicateName
)

// A Mode says how strictly Split checks the text of an object.
type Mode bool

const (
	// Strict refuses a name that occurs twice in an object, at any depth, and invalid UTF-8: two
	// readers could read two different values.
	Strict Mode = true
	// Lenient accepts repeated names and invalid UTF-8. Use it for text that was checked before, or
	// that is forwarded unchanged.
	Lenient Mode = false
)

// A Member is one name and value of an object.
type Member struct {
	Name    string
	Value   json.RawMessage // with the bytes that it has in the object
	Members Object          // members of Value, if the argument inner of [Split] has its name
	raw     []byte          // original name, colon and value; nil: of a new member
	end     int             // end of Value in the object that was split
}

// End returns the end of the value in the text that was split.
func (m Member) End() int { return m.end }

// An Object has the members of a JSON object in their order.
type Object []Member

// Split returns the members of a JSON object. It also splits a value that is an object if inner
// contains its name and the names of all objects around it. An error does not depend on the source
// of data: an early end is not an [io.ErrUnexpectedEOF].
func Split(data []byte, mode Mode, inner ...string) (Object, error) {
	d := decoders.Get().(*jsontext.Decoder)
	d.Reset(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(mode == Lenient), jsontext.AllowInvalidUTF8(mode == Lenient))
	defer func() {
		d.Reset(bytes.NewBuffer(nil)) // this releases data
		decoders.Put(d)
	}()
	s := splitter{Decoder: d, data: data, mode: mode, inner: inner}
	o, err := s.object()
	if err == nil {
		if _, err = s.ReadToken(); errors.Is(err, io.EOF) {
			return o, nil
		}
		err = errors.New("text after the JSON object")
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("unexpected end of JSON")
	}
	return nil, err
}

// decoders are reused: their memory of names is most of the memory that a small object needs.
var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

type splitter struct {
	*jsontext.Decoder
	data  []byte
	mode  Mode
	inner []string
}

// usualMembers is the initial capacity: the number of members of a request's envelope.
const usualMembers = 4

func (s *splitter) object() (Object, error) {
	if s.PeekKind() != '{' {
		if _, err := s.ReadValue(); err != nil {
			return nil, err
		}
		return nil, ErrNotObject
	}
	if _, err := s.ReadToken(); err != nil {
		return nil, err
	}
	var o Object
	for s.PeekKind() != '}' {
		m, err := s.member()
		if err != nil {
			return nil, err
		}
		if o == nil {
			o = make(Object, 0, usualMembers)
		}
		o = append(o, m)
	}
	_, err := s.ReadToken()
	return o, err
}

func (s *splitter) member() (m Member, err error) {
	quoted, err := s.ReadValue()
	if err != nil {
		return m, err
	}
	from := int(s.InputOffset()) - len(quoted)
	var room [64]byte // enough for most names
	name, err := jsontext.AppendUnquote(room[:0], quoted)
	if err != nil && s.mode == Strict {
		return m, err
	}
	m.Name = string(name)
	var start int
	if s.PeekKind() == '{' && slices.Contains(s.inner, m.Name) {
		start = int(s.InputOffset()) + bytes.IndexByte(s.data[s.InputOffset():], '{')
		m.Members, err = s.object()
	} else {
		var value jsontext.Value
		value, err = s.ReadValue()
		start = int(s.InputOffset()) - len(value)
	}
	end := int(s.InputOffset())
	m.Value, m.raw, m.end = s.data[start:end:end], s.data[from:end:end], end
	return m, err
}

// Get returns the last value of name, as most parsers do, or nil if there is none.
func (o Object) Get(name string) json.RawMessage {
	for _, m := range slices.Backward(o) {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// Add adds a member at the end.
func (o *Object) Add(name string, value []byte) {
	*o = append(*o, Member{Name: name, Value: value})
}

// Set makes value the only value of name, at the end of the object. It reports whether that changed
// the object.
func (o *Object) Set(name string, value []byte) bool {
	n := 0
	for _, m := range *o {
		if m.Name == name {
			n++
		}
	}
	if n == 1 && bytes.Equal(o.Get(name), value) {
		return false
	}
	o.Delete(name)
	o.Add(name, value)
	return true
}

// Delete removes every member with the name and reports whether there was one.
func (o *Object) Delete(name string) bool {
	n := len(*o)
	*o = slices.DeleteFunc(*o, func(m Member) bool { return m.Name == name })
	return len(*o) < n
}

// Bytes writes the object. Members that were split keep their original bytes.
func (o Object) Bytes() json.RawMessage { return o.Append(make([]byte, 0, o.Size())) }

// Size returns about how many bytes the written object has.
func (o Object) Size() int {
	n := 2
	for _, m := range o {
		n += max(len(m.raw), len(m.Name)+len(m.Value)+8) + 1
	}
	return n
}

// Append appends the written object to dst.
func (o Object) Append(dst []byte) []byte {
	dst = append(dst, '{')
	for i, m := range o {
		if i > 0 {
			dst = append(dst, ',')
		}
		if m.raw != nil {
			dst = append(dst, m.raw...)
			continue
		}
		dst = append(appendQuote(dst, m.Name), ':')
		dst = append(dst, m.Value...)
	}
	return append(dst, '}')
}

// Get returns the last value of name in an object. It returns nil if the object has no such name,
// or if object is another JSON value.
func Get(object []byte, name string) json.RawMessage {
	o, _ := Split(object, Lenient)
	return o.Get(name)
}

// Set returns an object with another value for name. A new member is added at the end. All other
// bytes stay. Set returns a value that is not an object unchanged.
func Set(object json.RawMessage, name string, value []byte) json.RawMessage {
	o, err := Split(object, Lenient)
	if err != nil {
		return object
	}
	out := make([]byte, 0, len(object)+len(name)+len(value)+4)
	done := 0
	for _, m := range o {
		if m.Name == name {
			out = append(append(out, object[done:m.end-len(m.Value)]...), value...)
			done = m.end
		}
	}
	if done > 0 {
		return append(out, object[done:]...)
	}
	end := bytes.LastIndexByte(object, '}')
	out = append(out, object[:end]...)
	if len(o) > 0 {
		out = append(out, ',')
	}
	out = append(append(appendQuote(out, name), ':'), value...)
	return append(out, object[end:]...)
}

// Elements returns the elements of a JSON array as their original bytes. It is [Lenient].
func Elements(array []byte) (list []json.RawMessage, err error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(array), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '[' {
		return nil, errors.New("not a JSON array")
	}
	for d.PeekKind() != ']' {
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		end := int(d.InputOffset())
		list = append(list, array[end-len(value):end:end])
	}
	return list, nil
}

// Encode returns v as compact JSON. It does not escape <, > and &: the reader is no browser, and
// every escape costs an agent tokens.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// isPlain says for each byte whether it is a whole character that needs no escape in a JSON string.
var isPlain = func() (plain [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		plain[c] = c != '"' && c != '\\'
	}
	return plain
}()

// AppendText appends s to dst as the JSON string that [Encode] writes for it.
func AppendText[T []byte | string](dst []byte, s T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	done := 0 // bytes of s that are already written
	escape := func(from, to int, as ...byte) {
		dst = append(append(dst, s[done:from]...), as...)
		done = to
	}
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case isPlain[c]:
			i++
			continue
		case c == '"' || c == '\\': // one in ten bytes of JSON in JSON is such a byte
			dst = append(append(dst, s[done:i]...), '\\', c)
			i++
			done = i
			continue
		case c < utf8.RuneSelf:
			if at := strings.IndexByte("\b\f\n\r\t", c); at >= 0 {
				escape(i, i+1, '\\', "bfnrt"[at])
			} else {
				escape(i, i+1, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
		switch {
		case r == utf8.RuneError && size == 1:
			escape(i, i+1, []byte(`\ufffd`)...)
		case r == '\u2028', r == '\u2029': // they end a line in JavaScript
			escape(i, i+size, '\\', 'u', '2', '0', '2', hex[r&15])
		}
		i += size
	}
	return append(append(dst, s[done:]...), '"')
}

// Quote returns s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func Quote(s string) json.RawMessage { return appendQuote(nil, s) }

func appendQuote(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // its error says that it replaced invalid UTF-8
	return dst
}

// Text returns the text of a JSON string, or "" for any other value.
func Text(value []byte) string {
	if len(value) == 0 || value[0] != '"' {
		return ""
	}
	s, _ := jsontext.AppendUnquote(nil, value) // its error says that it replaced invalid UTF-8
	return string(s)
}
