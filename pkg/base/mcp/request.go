package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// A Request is one message of a client that [Parse] has checked. Its raw parts are the bytes that
// the client sent: valid JSON in UTF-8, with no name twice in an object.
type Request struct {
	ID     json.RawMessage // a string or an integer; nil: a notification, or a client's answer
	Method string          // "": a client's answer
	Answer *Answer         // a client's answer to a server's request; nil: this is no answer

	Params    bool            // there is a params object; its members are the fields below
	Name      string          // of tools/call, prompts/get and a completion's prompt
	URI       string          // of resources/read and a completion's resource
	Task      string          // id of the task, of tasks/get, tasks/update and tasks/cancel
	Arguments json.RawMessage // of tools/call any JSON, of prompts/get an object; nil: none
	Fields    rawjson.Object  // the members of Arguments, if it is an object
	Cursor    string          // of a list
	Ref       json.RawMessage // of completion/complete: the object that contains Name or URI
	Meta      rawjson.Object  // the members of _meta
	Rest      rawjson.Object  // all other members of params, such as requestState
}

// An Answer is a client's answer to a request from a server.
type Answer struct {
	Result json.RawMessage // nil: the client refused
	Err    *Error          // the client's refusal; nil: there is a result
}

// IsNotification reports whether the sender expects no answer.
func (r Request) IsNotification() bool { return r.ID == nil }

// Subject returns the name or URI that the request is about, which the header Mcp-Name repeats, and
// the member of params that contains it. Both are "" if the request has no such subject.
func (r Request) Subject() (subject, member string) {
	switch r.Method {
	case MethodCallTool, MethodGetPrompt:
		return r.Name, "name"
	case MethodReadResource:
		return r.URI, "uri"
	case MethodGetTask, MethodUpdateTask, MethodCancelTask:
		return r.Task, "taskId"
	}
	return "", ""
}

// Bounds on the parts of a message. Comparing names costs up to a microsecond a name, and 4 MiB can
// hold 600,000 of them. A table of 10,000 rows with ten named columns has 100,000
// names. The longest vectors of numbers that tools use have fewer than a million elements.
const (
	maxMembers  = 100_000   // names, at any depth
	maxElements = 1_000_000 // of lists and objects together
)

// MaxID is the length of the longest id that Parse accepts: every answer repeats the id.
const MaxID = 1024

// Parse reads one message. With an error it also returns the parts that it could read, so that the
// refusal can include the id.
//
// Parse is strict, since servers read the same bytes with other parsers. If a name occurs twice at
// any depth, a check and a server could each read a different value.
func Parse(body []byte) (Request, *Error) {
	var r Request
	switch b := bytes.TrimLeft(body, " \t\r\n"); {
	case len(b) == 0:
		return r, refuse(CodeParse, "empty body")
	case b[0] == '[':
		return r, refuse(CodeInvalidRequest, "batches are not supported")
	}
	if tooMany(body) {
		r.ID = PeekID(bytes.NewReader(body))
		return r, refuse(CodeInvalidRequest, fmt.Sprintf("the message has more than %d members or %d elements", maxMembers, maxElements))
	}
	envelope, err := rawjson.Split(body, rawjson.Strict, "params", "arguments", "_meta")
	switch {
	case errors.Is(err, rawjson.ErrDuplicateName):
		return r, refuse(CodeInvalidRequest, "a member name is given twice")
	case errors.Is(err, rawjson.ErrNotObject):
		return r, refuse(CodeInvalidRequest, "not a JSON-RPC object")
	case err != nil:
		return r, refuse(CodeParse, "malformed JSON")
	}
	return r.read(envelope)
}

func (r Request) read(envelope rawjson.Object) (Request, *Error) {
	var version, method bool
	var badID, badParams bool
	var params rawjson.Object
	var result, refusal json.RawMessage
	for _, m := range envelope {
		switch m.Name {
		case "jsonrpc":
			version = string(m.Value) == `"2.0"`
		case "id":
			if badID = !validID(m.Value); !badID {
				r.ID = m.Value
			}
		case "method":
			method = true
			r.Method = rawjson.Text(m.Value)
		case "params":
			r.Params, params = m.Value[0] == '{', m.Members
			badParams = !r.Params && string(m.Value) != "null"
		case "result":
			result = m.Value
		case "error":
			refusal = m.Value
		}
	}
	answer := result != nil || refusal != nil
	switch {
	case badID:
		return r, refuse(CodeInvalidRequest, "id must be a string or an integer")
	case !version:
		return r, refuse(CodeInvalidRequest, `jsonrpc must be "2.0"`)
	case method == answer, method && r.Method == "":
		return r, refuse(CodeInvalidRequest, "not a request and not a response")
	case answer && r.ID == nil:
		return r, refuse(CodeInvalidRequest, "a response without an id")
	case result != nil && refusal != nil:
		return r, refuse(CodeInvalidRequest, "a response with a result and an error")
	case answer:
		return r.readAnswer(result, refusal)
	case badParams:
		return r, refuse(CodeInvalidParams, "params must be an object")
	}
	return r.readParams(params)
}

// readAnswer reads a client's answer. Either result or refusal is nil.
func (r Request) readAnswer(result, refusal json.RawMessage) (Request, *Error) {
	if refusal == nil {
		if result[0] != '{' {
			return r, refuse(CodeInvalidRequest, "result must be an object")
		}
		return Request{ID: r.ID, Answer: &Answer{Result: result}}, nil
	}
	members, err := rawjson.Split(refusal, rawjson.Lenient) // Parse has split it strictly before
	code, notInt := strconv.Atoi(string(members.Get("code")))
	message := members.Get("message")
	if err != nil || notInt != nil || message == nil || message[0] != '"' {
		return r, refuse(CodeInvalidRequest, "error must be an object with code and message")
	}
	return Request{ID: r.ID, Answer: &Answer{Err: &Error{Code: code, Message: rawjson.Text(message), Data: members.Get("data")}}}, nil
}

func refuse(code int, message string) *Error {
	return &Error{Code: code, Message: message, Status: http.StatusBadRequest}
}

// validID reports whether an id is what MCP allows: a string or an integer, not null.
func validID(v json.RawMessage) bool {
	if len(v) > MaxID {
		return false
	}
	if v[0] == '"' {
		return true
	}
	digits := bytes.TrimPrefix(v, []byte("-"))
	return len(digits) > 0 && len(bytes.Trim(digits, "0123456789")) == 0
}

// tooMany reports whether a message has more parts than the gateway reads. It skips strings, and
// counts the colons and commas outside them, which costs a fraction of parsing. Most messages are
// too short to have so many parts.
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

// endOfString returns the end of the string that begins before i.
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
