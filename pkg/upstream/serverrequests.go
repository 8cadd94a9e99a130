package upstream

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
)

// A server of the handshake era may ask its client something while it works on a request:
// for input, for a model's answer, whether it is still there. The gateway declares no
// capability and so owes an answer to ping alone; but a server that asks all the same
// waits for one, and a tool that is told no can end.

const (
	maxServerRequests = 64              // requests of the server during one operation that are answered
	answerTimeout     = 2 * time.Second // for handing in one answer
)

// answer answers a request that came on the stream of resp, and takes all else for a
// notification. The answer goes out on the same session.
func (o *operation) answer(ctx context.Context, s mcpSession, resp *http.Response, data []byte) {
	id, method := serverRequest(data)
	if id == nil || s.modern || o.answered == maxServerRequests {
		return
	}
	o.answered++
	body := rawjson.Object{{Name: "jsonrpc", Value: rawjson.Quote("2.0")}, {Name: "id", Value: id}}
	if method == "ping" {
		body.Add("result", []byte("{}"))
	} else {
		o.refused = true
		body.Add("error", []byte(`{"code":-32601,"message":"the client has no such method"}`))
	}
	if s.id == "" { // the request on the stream may be the one that opens the session
		if s.id = resp.Header.Get(mcp.HeaderSession); !validSession(s.id) {
			return
		}
	}
	defer func(x *exchange) { o.last = x }(o.last) // the evidence is that of the call
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	// Best effort: a server that does not take the answer is bounded by the call's own time.
	if handed, err := o.post(ctx, s, message{}, body.Bytes()); err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(handed.Body, maxEvidence))
		_ = handed.Body.Close()
	}
}

// serverRequest returns the id and the method of a request; the id is nil for anything else.
func serverRequest(data []byte) (id json.RawMessage, method string) {
	o, err := rawjson.Split(data, rawjson.Lenient)
	id, method = o.Get("id"), rawjson.Text(o.Get("method"))
	if err != nil || method == "" || len(id) == 0 || len(id) > 256 || id[0] != '"' && id[0] != '-' && (id[0] < '0' || id[0] > '9') {
		return nil, ""
	}
	return id, method
}

// withNote returns a result that reports an error with one more text block. Any other
// result stays as it is: the tool did without an answer.
func withNote(result json.RawMessage) json.RawMessage {
	o, err := rawjson.Split(result, rawjson.Lenient)
	if err != nil || string(o.Get("isError")) != "true" {
		return result
	}
	content := o.Get("content")
	if len(content) == 0 || content[0] != '[' {
		content = json.RawMessage("[]")
	}
	block := rawjson.Object{{Name: "type", Value: rawjson.Quote("text")}, {Name: "text", Value: rawjson.Quote(outcome.AskedNote)}}
	return rawjson.Set(result, "content", appended(content, block.Bytes()))
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
