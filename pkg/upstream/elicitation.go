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

// A server of the handshake protocol may send requests to its client while it works on a call:
// elicitation, sampling, roots and ping. The gateway passes a request on if the caller declared the
// capability. Otherwise the server gets an error, so that the tool can end.

const (
	maxServerRequests = 64              // server requests during one call that get an answer
	maxQuestions      = 16              // maximum of these requests that go to the caller
	maxOpenQuestions  = 4               // open at the same time
	maxQuestion       = 1 << 20         // bytes of one request
	answerTimeout     = 2 * time.Second // to send one answer
)

// A question is one request of a server to its client.
type question struct {
	id     json.RawMessage
	method string
	params json.RawMessage
}

// A questions holds the questions of a server during one operation. Each question has its own
// goroutine, so that the operation continues to read the stream. A nil *questions means that the
// server has asked nothing.
type questions struct {
	mu         sync.Mutex
	came       int // requests of the server
	asked      int // questions to the caller
	open       map[string]context.CancelFunc
	refused    bool            // the caller lacks the capability that the question needs
	unanswered bool            // the caller did not answer in time
	elicits    map[string]bool // ids of elicitations by URL
}

func newQuestions() *questions {
	return &questions{open: map[string]context.CancelFunc{}, elicits: map[string]bool{}}
}

// answerQuestion takes a request that the server sent on the stream of resp. The gateway sends the
// answer on the same session, but not after the end of the call.
func (o *operation) answerQuestion(ctx context.Context, s mcpSession, resp *http.Response, q question) {
	if o.questions == nil {
		o.questions = newQuestions()
	}
	x := o.questions
	own, ok := x.openQuestion(ctx, q)
	if !ok {
		return
	}
	if s.id == "" { // the stream may belong to the request that opens the session
		s.id = resp.Header.Get(mcp.HeaderSession)
	}
	c, ep, client, clock := o.c, o.ep, o.caller(), o.clock
	if len(q.params) > 0 {
		q.params = o.scrubbed(q.params)
	}
	refused := x.admit(client, q) // first, because the call's answer may come next
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
		if waits := x.closeQuestion(own, q); !waits || !validSession(s.id) {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		// Best effort: if the server does not read the answer, answerTimeout ends the attempt.
		if handed, err := c.post(ctx, ep, s, message{}, body.Bytes()); err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(handed.Body, maxEvidence))
			_ = handed.Body.Close()
		}
	}()
}

// openQuestion registers an open question, and returns a context that ends with it. ok is false if
// the question gets no answer: another open question has the same id, or there were too many.
func (x *questions) openQuestion(ctx context.Context, q question) (context.Context, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.came++; x.came > maxServerRequests || x.open[string(q.id)] != nil {
		return nil, false
	}
	ctx, cancel := context.WithCancel(ctx)
	x.open[string(q.id)] = cancel
	return ctx, true
}

// closeQuestion unregisters a question that has its answer, and reports whether the server still
// waits for it. The server may use the id again after it has the answer.
func (x *questions) closeQuestion(own context.Context, q question) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if own.Err() != nil {
		return false
	}
	x.open[string(q.id)]()
	delete(x.open, string(q.id))
	return true
}

// withdraw ends an open question.
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

// endAll ends all questions at the end of the call.
func (x *questions) endAll() {
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

// ask sends a question to the caller. An error is an [*mcp.Error], for the server.
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
	case ctx.Err() != nil: // the caller no longer waits for the answer
		return nil, &mcp.Error{Code: mcp.CodeInternal, Message: "cancelled"}
	case errors.Is(err, context.DeadlineExceeded):
		x.unanswered = true
		return nil, &mcp.Error{Code: mcp.CodeInternal, Message: "nobody answered within " + strconv.Itoa(int(mcp.AskTime/time.Minute)) + " minutes"}
	}
	x.refused = true
	return nil, &mcp.Error{Code: mcp.CodeInternal, Message: "the client cannot be reached"}
}

// admit refuses a question that must not go to the caller. A ping needs no caller.
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

// elicited reports whether the caller got the elicitation id by URL. Such a caller also gets its
// completion.
func (x *questions) elicited(id string) bool {
	if x == nil {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.elicits[id]
}

// note returns the text to add to a failure of the tool; "": none.
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

// forServer returns a client's refusal with a code that the server understands. The handshake
// protocol has no special code for a method, or a part of a method, that the client did not
// declare.
func forServer(e *mcp.Error) *mcp.Error {
	if e.Code == mcp.CodeMissingCapability {
		return &mcp.Error{Code: mcp.CodeMethodNotFound, Message: "the client has not declared that it can do this"}
	}
	return e
}

// errorObject writes err, an [*mcp.Error], as a JSON-RPC error object.
func errorObject(err error) []byte {
	e, _ := errors.AsType[*mcp.Error](err)
	o := rawjson.Object{{Name: "code", Value: strconv.AppendInt(nil, int64(e.Code), 10)}, {Name: "message", Value: rawjson.Quote(e.Message)}}
	if e.Data != nil {
		o.Add("data", e.Data)
	}
	return o.Bytes()
}

// withNote adds a text block to a result that reports an error. Any other result stays unchanged,
// because the tool succeeded without an answer.
func withNote(result json.RawMessage, note string) json.RawMessage {
	o, err := rawjson.Split(result, rawjson.Lenient)
	if err != nil || string(o.Get("isError")) != "true" {
		return result
	}
	return withText(result, note)
}

// withText returns a result with one more text block. All other bytes stay the same.
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
