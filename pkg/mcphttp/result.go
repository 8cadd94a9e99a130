package mcphttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxQuoted bounds an answer as a JSON string, which is how a Lambda function hands
// it on: 6 MiB in all, less the headers beside it. Quotes and backslashes double
// there, so a body under its own limit may still be over this one.
const maxQuoted = 6<<20 - 16<<10

// A rawResult stands in the SDK's answer for the bytes that the backend gave. They
// are put in later: the encoder would drop white space and copy them thrice.
type rawResult struct{ mcp.ResultBase }

// MarshalJSON returns a placeholder.
func (*rawResult) MarshalJSON() ([]byte, error) { return []byte("{}"), nil }

// A dress is what a result wears beside what the backend gave it.
type dress struct {
	list       bool            // of tools, which a client may keep
	modern     bool            // of the stateless protocol
	checked    bool            // the client holds structuredContent against the tool's output schema
	serverInfo []byte          // who answers; only in the stateless protocol
	meta       json.RawMessage // of the request
}

// put adds the members that the protocol wants to a result, and takes away what no
// client can read. What a result says of its kind and of who answers concerns one leg:
// of an upstream's it is replaced, or left out where the client's era has no such member.
// The bytes of every other value stay as they are.
func (d dress) put(result json.RawMessage) (json.RawMessage, error) {
	parts, err := members(result, loose...)
	if err != nil {
		return nil, fmt.Errorf("result of the backend: %w", err)
	}
	e := edit{parts: parts}
	if d.list {
		// Another caller must never be given this list out of a cache.
		e.set("cacheScope", `"private"`)
		e.add("ttlMs", `0`)
	} else {
		switch t := string(e.get("resultType")); {
		case t == "", t == resultComplete:
		case t != resultAsks:
			return d.put(toolError(answersOddly))
		case !d.modern:
			return d.put(toolError(asksOldClient))
		default:
			if refused := undeclared(e.get("inputRequests"), d.meta); refused != nil {
				return nil, refused
			}
		}
		if d.checked && string(e.get("isError")) == "true" {
			// A client that checks it against the output schema throws.
			e.moveStructured()
		}
	}
	if err := d.sign(&e); err != nil {
		return nil, err
	}
	if !e.changed {
		return result, nil
	}
	return e.bytes(), nil
}

// sign says of a result what kind it is and who answers.
func (d dress) sign(e *edit) error {
	if !d.modern {
		e.remove("resultType")
		e.removeMeta(mcp.MetaKeyServerInfo)
		return nil
	}
	if d.list || string(e.get("resultType")) != resultAsks {
		e.set("resultType", resultComplete)
	}
	return e.setMeta(mcp.MetaKeyServerInfo, d.serverInfo)
}

// An edit is an object under change.
type edit struct {
	parts   []member
	changed bool
}

// get returns the last value of name, nil if there is none: most parsers take the
// last.
func (e *edit) get(name string) json.RawMessage {
	var v json.RawMessage
	for _, p := range e.parts {
		if p.name == name {
			v = p.value
		}
	}
	return v
}

func (e *edit) add(name, value string) {
	if e.get(name) == nil {
		e.parts = append(e.parts, newMember(name, []byte(value)))
		e.changed = true
	}
}

// set makes value the one value of name.
func (e *edit) set(name, value string) {
	n := 0
	for _, p := range e.parts {
		if p.name == name {
			n++
		}
	}
	if n != 1 || string(e.get(name)) != value {
		e.remove(name)
		e.add(name, value)
	}
}

func (e *edit) remove(name string) {
	kept := e.parts[:0:0]
	for _, p := range e.parts {
		if p.name != name {
			kept = append(kept, p)
		}
	}
	e.changed = e.changed || len(kept) < len(e.parts)
	e.parts = kept
}

// moveStructured takes structuredContent away. If it was all that there was, the
// model reads it as text.
func (e *edit) moveStructured() {
	structured := e.get("structuredContent")
	if structured == nil {
		return
	}
	e.remove("structuredContent")
	if c := bytes.Join(bytes.Fields(e.get("content")), nil); len(c) == 0 || string(c) == "[]" {
		e.replace("content", textContent(string(structured)))
	}
}

// setMeta makes value the one value of name in _meta.
func (e *edit) setMeta(name string, value []byte) error {
	meta := e.get("_meta")
	if meta == nil || string(meta) == "null" {
		meta = json.RawMessage("{}")
	}
	parts, err := members(meta, loose...)
	if err != nil {
		return fmt.Errorf("_meta of a result: %w", err)
	}
	inner := edit{parts: parts}
	if inner.set(name, string(value)); inner.changed {
		e.replace("_meta", inner.bytes())
	}
	return nil
}

// removeMeta takes a member out of _meta, and _meta with it if nothing is left.
func (e *edit) removeMeta(name string) {
	parts, err := members(e.get("_meta"), loose...)
	inner := edit{parts: parts}
	if err != nil || inner.get(name) == nil {
		return // no object, or nothing in it
	}
	if inner.remove(name); len(inner.parts) > 0 {
		e.replace("_meta", inner.bytes())
	} else {
		e.remove("_meta")
	}
}

func (e *edit) replace(name string, value []byte) {
	e.remove(name)
	e.parts = append(e.parts, newMember(name, value))
	e.changed = true
}

func (e *edit) bytes() []byte {
	size := 2
	for _, p := range e.parts {
		size += len(p.raw) + 1
	}
	out := append(make([]byte, 0, size), '{')
	for i, p := range e.parts {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, p.raw...)
	}
	return append(out, '}')
}

func newMember(name string, value []byte) member {
	raw := append(appendString(nil, name), ':')
	return member{name: name, value: value, raw: append(raw, value...)}
}

// toolError makes a result that a model reads and acts on.
func toolError(text string) json.RawMessage {
	return append(append([]byte(`{"content":`), textContent(text)...), `,"isError":true}`...)
}

func textContent(text string) []byte {
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		quoted, _ = jsontext.AppendQuote(nil, string(bytes.ToValidUTF8([]byte(text), []byte("\uFFFD"))))
	}
	return append(append([]byte(`[{"type":"text","text":`), quoted...), `}]`...)
}

var errTooLong = errors.New("answer is over the limit")

// exceeded returns the limit, in bytes, that an answer with this result would exceed: limit
// itself, or that of the answer as a string; 0 if it can be sent.
func exceeded(result json.RawMessage, limit int) int {
	const around = maxID + 64 // the envelope
	if len(result)+around > limit {
		return limit
	}
	const widest = 6 // one byte as \u00XX
	if len(result)*widest+around <= maxQuoted || quotedLen(result)+around <= maxQuoted {
		return 0
	}
	return maxQuoted
}

// quotedLen returns the length of b as encoding/json writes it as a string, without
// escaping HTML and without the two quotes.
func quotedLen(b []byte) int {
	n := 0
	for i := 0; i < len(b); {
		c := b[i]
		if c < utf8.RuneSelf {
			switch {
			case c == '"', c == '\\', c == '\b', c == '\f', c == '\n', c == '\r', c == '\t':
				n += 2
			case c < 0x20:
				n += 6
			default:
				n++
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 || r == '\u2028' || r == '\u2029' {
			n += 6
		} else {
			n += size
		}
		i += size
	}
	return n
}
