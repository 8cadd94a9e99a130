package upstream

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/outcome"
)

// A server of the handshake era may ask its client something while it works on a request:
// for input, for a model's answer, whether it is still there. The gateway declares no
// capability and so owes an answer to ping alone; but a server that asks all the same
// waits for one, and a tool that is told no can end.

const (
	maxAsked     = 64              // requests of one op's servers that are answered
	askedTimeout = 2 * time.Second // for handing in one answer
)

// answer answers a request that came on the stream of resp, and takes all else for a
// notification. The answer goes out on the same session.
func (o *op) answer(ctx context.Context, l leg, resp *http.Response, data []byte) {
	id, method := asked(data)
	if id == nil || l.modern || o.answered == maxAsked {
		return
	}
	o.answered++
	var body object
	body.add("jsonrpc", quote("2.0"))
	body.add("id", id)
	if method == "ping" {
		body.add("result", []byte("{}"))
	} else {
		o.refused = true
		var fault object
		fault.add("code", []byte("-32601"))
		fault.add("message", quote("the client has no such method"))
		body.add("error", fault.end())
	}
	if l.session == "" { // the request on the stream may be the one that opens the session
		if l.session = resp.Header.Get(sessionHeader); !validSession(l.session) {
			return
		}
	}
	defer func(x *Exchange) { o.trail.last = x }(o.trail.last) // the evidence is that of the call
	ctx, cancel := context.WithTimeout(ctx, askedTimeout)
	defer cancel()
	// Best effort: a server that does not take the answer is bounded by the call's own time.
	if handed, err := o.post(ctx, l, message{}, body.end()); err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(handed.Body, maxEvidence))
		_ = handed.Body.Close()
	}
}

// asked returns the id and the method of a request; the id is nil for anything else.
func asked(data []byte) (id json.RawMessage, method string) {
	err := members(data, func(name string, value json.RawMessage) error {
		switch name {
		case "id":
			id = value
		case "method":
			method = text(value)
		}
		return nil
	})
	if err != nil || method == "" || len(id) == 0 || len(id) > 256 || id[0] != '"' && id[0] != '-' && (id[0] < '0' || id[0] > '9') {
		return nil, ""
	}
	return id, method
}

// withNote returns a result that reports an error with one more text block. Any other
// result stays as it is: the tool did without an answer.
func withNote(result json.RawMessage) json.RawMessage {
	var out object
	failed, noted := false, false
	err := members(result, func(name string, value json.RawMessage) error {
		switch {
		case name == "isError":
			failed = string(value) == "true"
		case name == "content" && value[0] == '[':
			value, noted = appended(value, noteBlock()), true
		}
		out.add(name, value)
		return nil
	})
	if err != nil || !failed {
		return result
	}
	if !noted {
		out.add("content", appended(json.RawMessage("[]"), noteBlock()))
	}
	return out.end()
}

func noteBlock() []byte {
	var block object
	block.add("type", quote("text"))
	block.add("text", quote(outcome.AskedNote))
	return block.end()
}

// appended returns a JSON array with one more element.
func appended(array json.RawMessage, element []byte) json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(array, &list) != nil {
		return array
	}
	b := append([]byte(nil), array[:len(array)-1]...)
	if len(list) > 0 {
		b = append(b, ',')
	}
	return append(append(b, element...), ']')
}
