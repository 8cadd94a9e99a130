package mcphttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/portcullis-mcp/portcullis/pkg/gateway"
)

// JSON-RPC 2.0 error codes.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
)

// Bounds on the parts of a message. To hold names against each other costs up to a
// microsecond a name, and 4 MiB have room for 600,000 of them. A table of 10,000 rows with
// ten named columns each has 100,000; the longest vectors of numbers that fit have fewer
// than a million.
const (
	maxMembers  = 100_000   // names, at any depth
	maxElements = 1_000_000 // of lists and objects together
)

// tooMany reports whether a message has more parts than are looked at. It follows strings
// alone, at a fraction of what parsing costs; most messages are too short to have so many.
func tooMany(body []byte) bool {
	const least = len(`"":0,`)
	if len(body) < maxMembers*least {
		return false
	}
	names, elements := 0, 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			i = endOfString(body, i+1)
		case ':':
			names++
		case ',':
			elements++
		}
	}
	return names > maxMembers || elements > maxElements
}

// endOfString returns where the string ends that begins before i.
func endOfString(body []byte, i int) int {
	for i < len(body) {
		n := bytes.IndexByte(body[i:], '"')
		if n < 0 {
			break
		}
		end, escapes := i+n, 0
		for end-escapes > i && body[end-escapes-1] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return end
		}
		i = end + 1
	}
	return len(body)
}

// maxID bounds what is sent back with every answer.
const maxID = 1024

// A message is one JSON-RPC message. Its raw parts are the bytes that the client
// sent.
type message struct {
	id     json.RawMessage // a string or an integer; nil: a notification, or a client's answer
	method string          // "": a client's answer
	params json.RawMessage // an object; nil: none

	// Of params, where the method has them.
	name   string
	cursor string
	meta   json.RawMessage // an object; nil: none
}

// parse reads one message. With an error it returns what it made out, so that the
// refusal can carry the id.
//
// The reading is strict, since the SDK and the backend will read the same bytes with
// other parsers: a name given twice, at any depth, could mean one thing to a
// check and another to the deed.
func parse(body []byte) (message, *gateway.Error) {
	var m message
	switch b := bytes.TrimLeft(body, " \t\r\n"); {
	case len(b) == 0:
		return m, badRequest(codeParse, "empty body")
	case b[0] == '[':
		return m, badRequest(codeInvalidRequest, "batches are not supported")
	}
	if tooMany(body) {
		m.id, _ = (&idScan{number: -1}).scan(body[:min(len(body), maxPeek)])
		return m, badRequest(codeInvalidRequest, fmt.Sprintf("the message has more than %d members or %d elements", maxMembers, maxElements))
	}
	parts, err := members(body)
	if err != nil {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return m, badRequest(codeInvalidRequest, "a member name is given twice")
		}
		if errors.Is(err, errNotObject) {
			return m, badRequest(codeInvalidRequest, "not a JSON-RPC object")
		}
		return m, badRequest(codeParse, "malformed JSON")
	}
	return m.read(parts)
}

func (m message) read(parts []member) (message, *gateway.Error) {
	var version, method, answer bool
	var badID, badMethod, badParams bool
	for _, p := range parts {
		switch p.name {
		case "jsonrpc":
			version = string(p.value) == `"2.0"`
		case "id":
			if badID = !validID(p.value); !badID {
				m.id = p.value
			}
		case "method":
			method = true
			badMethod = json.Unmarshal(p.value, &m.method) != nil || m.method == ""
		case "params":
			if string(p.value) != "null" {
				m.params = p.value
				badParams = p.value[0] != '{'
			}
		case "result", "error":
			answer = true
		}
	}
	switch {
	case badID:
		return m, badRequest(codeInvalidRequest, "id must be a string or an integer")
	case !version:
		return m, badRequest(codeInvalidRequest, `jsonrpc must be "2.0"`)
	case method == answer, badMethod:
		return m, badRequest(codeInvalidRequest, "not a request and not a response")
	case answer && m.id == nil:
		return m, badRequest(codeInvalidRequest, "a response without an id")
	case answer:
		return message{}, nil
	case badParams:
		return m, badRequest(codeInvalidParams, "params must be an object")
	}
	return m.readParams()
}

// paramNames are the members of params that have a meaning here or in the
// backend.
var paramNames = []string{"name", "arguments", "_meta", "cursor", "inputResponses", "requestState"}

func (m message) readParams() (message, *gateway.Error) {
	if m.params == nil {
		return m, nil
	}
	parts, err := members(m.params, jsontext.AllowDuplicateNames(true)) // parse has looked for them, at any depth
	if err != nil {
		return m, badRequest(codeParse, "malformed JSON")
	}
	for _, p := range parts {
		for _, known := range paramNames {
			// encoding/json takes "Name" for "name"; others do not.
			if p.name != known && strings.EqualFold(p.name, known) {
				return m, badRequest(codeInvalidParams, "a name in params differs from a known one in case alone")
			}
		}
		bad := false
		switch {
		case p.name == "_meta":
			m.meta = p.value
			bad = p.value[0] != '{'
		case p.name == "name" && m.method == "tools/call":
			bad = json.Unmarshal(p.value, &m.name) != nil || p.value[0] != '"'
		case p.name == "cursor" && m.method == "tools/list":
			bad = json.Unmarshal(p.value, &m.cursor) != nil
		}
		if bad {
			return m, badRequest(codeInvalidParams, "params."+p.name+" has the wrong type")
		}
	}
	return m, nil
}

// validID holds ids to what MCP allows: a string or an integer, not null.
func validID(v json.RawMessage) bool {
	if len(v) > maxID {
		return false
	}
	if v[0] == '"' {
		return true
	}
	digits := bytes.TrimPrefix(v, []byte("-"))
	return len(digits) > 0 && len(bytes.Trim(digits, "0123456789")) == 0
}

// isNotification reports whether the message wants no answer.
func (m message) isNotification() bool { return m.id == nil }

// sdkID is the id under which the SDK sees every request. It would round an integer
// over 2^53, so the client's own id never reaches it but for one method.
const sdkID = `1`

// forSDK writes the message anew, so that the SDK reads what was read here and not
// what its own parser would make of the client's bytes. Of a tool call it
// needs the name and _meta; arguments, which may be long, stay out.
func (m message) forSDK() []byte {
	b := []byte(`{"jsonrpc":"2.0"`)
	switch {
	case m.isNotification():
	case m.method == methodListen: // its answer repeats the id in _meta
		b = append(append(b, `,"id":`...), m.id...)
	default:
		b = append(b, `,"id":`+sdkID...)
	}
	b = append(b, `,"method":`...)
	b = appendString(b, m.method)
	if m.method != methodCall && m.method != methodList {
		if m.params != nil {
			b = append(append(b, `,"params":`...), m.params...)
		}
		return append(b, '}')
	}
	b = append(b, `,"params":{`...)
	if m.method == methodCall {
		b = append(b, `"name":`...)
		b = appendString(b, m.name)
	}
	if m.meta != nil {
		if m.method == methodCall {
			b = append(b, ',')
		}
		b = append(append(b, `"_meta":`...), m.meta...)
	}
	return append(b, "}}"...)
}

func appendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // fails on invalid UTF-8 alone, which parse refused
	return dst
}

// A member is one name and value of an object. Value is a part of the object's own
// bytes; raw is name, colon and value.
type member struct {
	name       string
	value, raw json.RawMessage
}

var errNotObject = errors.New("not a JSON object")

// members cuts an object at its top level. It is strict about the whole text: names
// given twice at any depth, invalid UTF-8 and what follows the object are errors, unless
// opts say otherwise.
func members(object []byte, opts ...jsontext.Options) ([]member, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(object), opts...)
	if d.PeekKind() != '{' {
		if _, err := d.ReadValue(); err != nil {
			return nil, err
		}
		return nil, errNotObject
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	var out []member
	for d.PeekKind() != '}' {
		quoted, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		m := member{}
		start := d.InputOffset() - int64(len(quoted))
		name, err := jsontext.AppendUnquote(nil, quoted)
		if err != nil && len(opts) == 0 {
			return nil, err
		}
		m.name = string(name)
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		end := d.InputOffset()
		m.value = object[end-int64(len(value)) : end : end]
		m.raw = object[start:end:end]
		out = append(out, m)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the object")
	}
	return out, nil
}

func badRequest(code int, msg string) *gateway.Error {
	return &gateway.Error{Code: code, Message: msg, Status: http.StatusBadRequest}
}
