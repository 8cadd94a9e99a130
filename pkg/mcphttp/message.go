package mcphttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
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
	parts, err := rawjson.Split(body, rawjson.Strict, "params")
	switch {
	case errors.Is(err, rawjson.ErrDuplicateName):
		return m, badRequest(codeInvalidRequest, "a member name is given twice")
	case errors.Is(err, rawjson.ErrNotObject):
		return m, badRequest(codeInvalidRequest, "not a JSON-RPC object")
	case err != nil:
		return m, badRequest(codeParse, "malformed JSON")
	}
	return m.read(parts)
}

func (m message) read(parts rawjson.Object) (message, *gateway.Error) {
	var version, method, answer bool
	var badID, badMethod, badParams bool
	var params rawjson.Object
	for _, p := range parts {
		switch p.Name {
		case "jsonrpc":
			version = string(p.Value) == `"2.0"`
		case "id":
			if badID = !validID(p.Value); !badID {
				m.id = p.Value
			}
		case "method":
			method = true
			badMethod = json.Unmarshal(p.Value, &m.method) != nil || m.method == ""
		case "params":
			if string(p.Value) != "null" {
				m.params, params = p.Value, p.Members
				badParams = p.Value[0] != '{'
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
	return m.readParams(params)
}

// paramNames are the members of params that have a meaning here or in the
// backend.
var paramNames = []string{"name", "arguments", "_meta", "cursor", "inputResponses", "requestState"}

func (m message) readParams(params rawjson.Object) (message, *gateway.Error) {
	for _, p := range params {
		for _, known := range paramNames {
			// encoding/json takes "Name" for "name"; others do not.
			if p.Name != known && strings.EqualFold(p.Name, known) {
				return m, badRequest(codeInvalidParams, "a name in params differs from a known one in case alone")
			}
		}
		bad := false
		switch {
		case p.Name == "_meta":
			m.meta = p.Value
			bad = p.Value[0] != '{'
		case p.Name == "name" && m.method == "tools/call":
			bad = json.Unmarshal(p.Value, &m.name) != nil || p.Value[0] != '"'
		case p.Name == "cursor" && m.method == "tools/list":
			bad = json.Unmarshal(p.Value, &m.cursor) != nil
		}
		if bad {
			return m, badRequest(codeInvalidParams, "params."+p.Name+" has the wrong type")
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
	b = append(b, rawjson.Quote(m.method)...)
	if m.method != methodCall && m.method != methodList {
		if m.params != nil {
			b = append(append(b, `,"params":`...), m.params...)
		}
		return append(b, '}')
	}
	b = append(b, `,"params":{`...)
	if m.method == methodCall {
		b = append(b, `"name":`...)
		b = append(b, rawjson.Quote(m.name)...)
	}
	if m.meta != nil {
		if m.method == methodCall {
			b = append(b, ',')
		}
		b = append(append(b, `"_meta":`...), m.meta...)
	}
	return append(b, "}}"...)
}

func badRequest(code int, msg string) *gateway.Error {
	return &gateway.Error{Code: code, Message: msg, Status: http.StatusBadRequest}
}
