package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

var errNotObject = errors.New("must be a JSON object in valid UTF-8")

// A member is one key of a JSON object and its value, byte-exact.
type member struct {
	key   string
	value json.RawMessage // part of the object's own bytes
	end   int             // where the value ends in the object
}

// members splits a JSON object. It is strict: a key that stands twice, at any depth,
// is refused, because what is checked here and what another reader acts on must be the same.
func members(raw json.RawMessage) ([]member, error) {
	list, err := split(raw)
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok && errors.Is(err, jsontext.ErrDuplicateName) {
		return nil, fmt.Errorf("has the key %s twice", quote(e.JSONPointer.LastToken()))
	}
	if err != nil {
		return nil, errNotObject
	}
	return list, nil
}

func split(raw json.RawMessage, opts ...jsontext.Options) ([]member, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), opts...)
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, errNotObject
	}
	var out []member
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		m := member{key: name.String()}
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		m.end = int(d.InputOffset())
		m.value = raw[m.end-len(value) : m.end : m.end]
		out = append(out, m)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errNotObject
	}
	return out, nil
}

// An edit makes the new value of a key out of the old one, nil if there is none.
type edit func(old json.RawMessage) json.RawMessage

// change returns a JSON object with the values of some keys replaced; keys that
// it lacks are added at its end, in order of their names. All other bytes stay.
func change(raw json.RawMessage, edits map[string]edit) json.RawMessage {
	if len(edits) == 0 {
		return raw
	}
	list, err := split(raw, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return raw
	}
	out := bytes.NewBuffer(make([]byte, 0, len(raw)+64))
	done := 0
	var added []string
	for key := range edits {
		if !slices.ContainsFunc(list, func(m member) bool { return m.key == key }) {
			added = append(added, key)
		}
	}
	for _, m := range list {
		if f, ok := edits[m.key]; ok {
			out.Write(raw[done : m.end-len(m.value)])
			out.Write(f(m.value))
			done = m.end
		}
	}
	end := bytes.LastIndexByte(raw, '}')
	out.Write(raw[done:end])
	slices.Sort(added)
	for i, key := range added {
		if i > 0 || len(list) > 0 {
			out.WriteByte(',')
		}
		out.Write(encode(key))
		out.WriteByte(':')
		out.Write(edits[key](nil))
	}
	out.Write(raw[end:])
	return out.Bytes()
}

// encode prints a string, a boolean or plain data, which cannot fail.
func encode(v any) json.RawMessage {
	raw, err := marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}
