package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// A server of the handshake protocol may ask its client something while it works on a request: for
// input, for a model's answer, for its folders, whether it is still there. What the caller can be
// asked it is asked; to all else the server gets an error, since a tool that is told no can end.

const (
	maxServerRequests = 64              // requests of the server during one call that are answered
	maxQuestions      = 16              // those of them that the caller is asked
	maxOpenQuestions  = 4               // at once
	maxQuestion       = 1 << 20         // bytes of one
	answerTimeout     = 2 * time.Second // for handing in one answer
)

// A question is one request of a server to its client.
type question struct {
	id     json.RawMessage
	method string
	params json.RawMessage
}

// Questions are what a server asks during one operation. They are answered in goroutines of their own,
// so that the stream on which they come is read on. A nil *questions is that of a server that asks nothing.
type questions struct {
	mu         sync.Mutex
	came       int // requests of the server
	asked      int // of the caller
	open       map[string]context.CancelFunc
	refused    bool            // the caller cannot give what was asked for
	unanswered bool            // it did not in time
	elicits    map[string]bool // ids of what it is asked for by URL
}

func newQuestions() *questions {
	return &questions{open: map[string]context.CancelFunc{}, elicits: map[string]bool{}}
}

// asked takes a request of the server that came on the stream of resp. Its answer goes out on the
// same session, and none once the call is over.
func (o *operation) asked(ctx context.Context, s mcpSession, resp *http.Response, q question) {
	if o.questions == nil {
		o.questions = newQuestions()
	}
	x := o.questions
	own, ok := x.opened(ctx, q)
	if !ok {
		return
	}
	if s.id == "" { // the request on the stream may be the one that opens the session
		s.id = resp.Header.Get(mcp.HeaderSession)
	}
	c, ep, client, clock := o.c, o.ep, o.caller(), o.clock
	if len(q.params) > 0 {
		q.params = o.scrubbed(q.params)
	}
	refused := x.admit(client, q) // at once: the call's answer may come next
	go func() {
		body := rawjson.Object{{Name: "jsonrpc", Value: rawjson.Quote("2.0")}, {Name: "id", Value: q.id}}
		if q.method == mcp.MethodPing {
			body.Add("result", []byte("{}"))
		} else if refused != nil {
			body.Add("error", errorObject(refused))
		} else if result, err := x.ask(own, client, clock, q); err != nil {
			body.Add("error", errorObject(err))
		} else {
			body.Add("result", result)
		}
		if waits := x.closed(own, q); !waits || !validSession(s.id) {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		// Best effort: a server that does not take the answer is bounded by the call's own time.
		if handed, err := c.post(ctx, ep, s, message{}, body.Bytes()); err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(handed.Body, maxEvidence))
			_ = handed.Body.Close()
		}
	}()
}

// opened notes that a question is open, and returns a context that ends with it. It is not
// ok if it gets no answer: one of its id is open already, or there were too many.
func (x *questions) opened(ctx context.Context, q question) (context.Context, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.came++; x.came > maxServerRequests || x.open[string(q.id)] != nil {
		return nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	x.open[string(q.id)] = cancel
	return ctx, true
}

// closed notes that a question has its answer, and reports whether the server still waits for it. Its
// id can come again as soon as the server has that.
func (x *questions) closed(own context.Context, q question) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if own.Err() != nil {
		return false
	}
	x.open[string(q.id)]()
	delete(x.open, string(q.id))
	return true
}

// withdraw ends a question that is open.
func (x *questions) withdraw(id json.RawMessage) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if cancel := x.open[string(id)]; cancel != nil {
		delete(x.open, string(id))
		cancel()
	}
}

// over ends all questions: the call has its answer, or never gets one.
func (x *questions) over() {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, cancel := range x.open {
		cancel()
	}
	clear(x.open)
}

// ask asks the caller. An error is an [*mcp.Error], for the server.
func (x *questions) ask(ctx context.Context, c mcp.Client, clock *clock, q question) (json.RawMessage, error) {
	if clock != nil {
		clock.hold()
		defer clock.release()
	}
	own, cancel := context.WithTimeout(ctx, mcp.AskTime)
	defer cancel()
	result, err := c.Ask(own, q.method, q.params)
	x.mu.Lock()
	defer x.mu.Unlock()
	switch refused, own := errors.AsType[*mcp.Error](err); {
	case err == nil && len(result) > 0 && result[0] == '{':
		return result, nil
	case own:
		x.refused = x.refused || refused.Code == mcp.CodeMissingCapability
		return nil, forServer(refused)
	case ctx.Err() != nil: // nobody waits for the answer any more
		return nil, &mcp.Error{Code: mcp.CodeInternal, Message: "cancelled"}
	case errors.Is(err, context.DeadlineExceeded):
		x.unanswered = true
		return nil, &mcp.Error{Code: mcp.CodeInternal, Message: "nobody answered within " + strconv.Itoa(int(mcp.AskTime/time.Minute)) + " minutes"}
	}
	x.refused = true
	return nil, &mcp.Error{Code: mcp.CodeInternal, Message: "the client cannot be asked"}
}

// admit refuses a question that the caller is not asked. A sign of life needs no caller.
func (x *questions) admit(c mcp.Client, q question) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	known := q.method == mcp.MethodElicit || q.method == mcp.MethodSample || q.method == mcp.MethodListRoots
	switch {
	case q.method == mcp.MethodPing:
		return nil
	case !known || c.Ask == nil:
		x.refused = true
		return &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "the client has no such method"}
	case len(q.params) > 0 && q.params[0] != '{', len(q.params) == 0 && q.method != mcp.MethodListRoots:
		x.refused = true
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "params must be an object"}
	case len(q.params) > maxQuestion:
		x.refused = true
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "the request is too long to pass on"}
	case x.asked >= maxQuestions:
		x.refused = true
		return &mcp.Error{Code: mcp.CodeInternal, Message: "one call asked too often"}
	case len(x.open) > maxOpenQuestions:
		return &mcp.Error{Code: mcp.CodeInternal, Message: "too many requests to the client are open"}
	}
	x.asked++
	if id := rawjson.Text(rawjson.Get(q.params, "elicitationId")); id != "" && q.method == mcp.MethodElicit {
		x.elicits[id] = true
	}
	return nil
}

// elicited reports whether the caller was asked for id by URL, and so wants to know that it is done.
func (x *questions) elicited(id string) bool {
	if x == nil {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.elicits[id]
}

// note returns what is added to a failure of the tool; "": nothing.
func (x *questions) note() string {
	if x == nil {
		return ""
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.refused:
		return outcome.AskedNote
	case x.unanswered:
		return outcome.UnansweredNote
	}
	return ""
}

// forServer returns a client's refusal as its server knows it: a method that was not declared, or a
// part of one, has no code of its own in the handshake protocol.
func forServer(e *mcp.Error) *mcp.Error {
	if e.Code == mcp.CodeMissingCapability {
		return &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "the client has not declared that it can do this"}
	}
	return e
}

// errorObject writes err, which is an [*mcp.Error], as one of JSON-RPC.
func errorObject(err error) []byte {
	e, _ := errors.AsType[*mcp.Error](err)
	o := rawjson.Object{{Name: "code", Value: strconv.AppendInt(nil, int64(e.Code), 10)}, {Name: "message", Value: rawjson.Quote(e.Message)}}
	if e.Data != nil {
		o.Add("data", e.Data)
	}
	return o.Bytes()
}

// withNote returns a result that reports an error with one more text block. Any other
// result stays as it is: the tool did without an answer.
func withNote(result json.RawMessage, note string) json.RawMessage {
	o, err := rawjson.Split(result, rawjson.Lenient)
	if err != nil || string(o.Get("isError")) != "true" {
		return result
	}
	return withText(result, note)
}

// withText returns a result with one more text block. The rest of it stays byte for byte.
func withText(result json.RawMessage, text string) json.RawMessage {
	content := rawjson.Get(result, "content")
	if len(content) == 0 || content[0] != '[' {
		content = json.RawMessage("[]")
	}
	block := rawjson.Object{{Name: "type", Value: rawjson.Quote("text")}, {Name: "text", Value: rawjson.Quote(text)}}
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
