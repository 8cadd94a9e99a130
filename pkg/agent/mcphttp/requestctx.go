package mcphttp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// work begins the work on a request. The work has a deadline, and the client can cancel it.
// [handler.rest] ends it.
func (h *handler) work(w http.ResponseWriter, r *http.Request, q *request) context.Context {
	ctx := r.Context()
	if !q.modern { // in the handshake protocol, a disconnect does not cancel
		ctx = context.WithoutCancel(ctx)
	}
	talks := h.opts.Stream && methods[q.msg.Method].talks && accepts(r.Header, eventStream)
	ctx, q.cancel = context.WithDeadline(ctx, q.deadline)
	if !q.modern && h.opts.Ending != nil { // the end of the program cancels the request
		end := q.cancel
		leave := context.AfterFunc(r.Context(), func() {
			if h.stopping() {
				end()
			}
		})
		q.cancel = func() {
			leave()
			end()
		}
	}
	if talks {
		q.stream = newStream(w, r, h.wants(q), q.cancel)
	}
	h.live.enter(q)
	return ctx
}

// stopping reports whether the program will end soon.
func (h *handler) stopping() bool {
	select {
	case <-h.opts.Ending:
		return true
	default:
		return false
	}
}

// unansweredError returns the error of a request that ended before its server answered, or nil if
// err has another cause. The request may have taken effect at the server.
func (h *handler) unansweredError(q *request, err error) *outcome.CallError {
	if _, refused := errors.AsType[*mcp.Error](err); err == nil || refused {
		return nil
	}
	e := &outcome.CallError{Delivered: true, Outcome: outcome.Outcome{
		Status: outcome.Transient, Reason: outcome.ReasonTimeout, Duration: time.Since(q.start),
	}}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return e
	case errors.Is(err, context.Canceled) && h.stopping():
		e.Outcome.Reason, e.Note = outcome.ReasonAborted, outcome.StoppedNote
		return e
	}
	return nil
}

// rest ends the work on a request.
func (h *handler) rest(q *request) {
	h.live.leave(q)
	q.cancel()
}

// wants returns a queue for the messages that the client wants during its request.
func (h *handler) wants(q *request) (out queue) {
	token := q.msg.Meta.Get(mcp.MetaProgressToken)
	if isPresent(token) && len(token) <= mcp.MaxID && token[0] != '{' && token[0] != '[' {
		out.token = token
	}
	switch {
	case q.modern:
		out.level = mcp.ParseLogLevel(rawjson.Text(q.msg.Meta.Get(mcp.MetaLogLevel)))
	case h.keepsSessions(): // without kept sessions, the gateway declares no log messages
		out.level = h.live.level(q.token)
	}
	return out
}

// asks reports whether the client of a request can get questions during the request.
func (h *handler) asks(q *request) bool { return !q.modern && h.live != nil && q.token != nil }

// capabilities returns what a client of the stateless protocol declares with its request.
func (q *request) capabilities() json.RawMessage {
	return q.msg.Meta.Get(mcp.MetaClientCapabilities)
}

// has reports whether the client has declared an extension with its request.
func (q *request) has(extension string) bool {
	return q.modern && mcp.HasExtension(q.capabilities(), extension)
}

// client returns the client that waits for the answer to a call.
func (h *handler) client(q *request) mcp.Client {
	c := mcp.Client{Capabilities: q.capabilities()}
	if q.token != nil {
		c.Capabilities, c.OpensLinks = q.token.capabilities.bytes(), q.token.version == mcp.VersionLegacy
	}
	s := q.stream
	if s == nil {
		return c
	}
	if s.queue.token != nil || s.queue.level > 0 {
		c.Progress, c.LogLevel, c.Notify = s.queue.token != nil, s.queue.level.String(), s.notify
	}
	if h.asks(q) {
		c.Ask = func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			return q.ask(ctx, h.live, method, params)
		}
	}
	return c
}

// endUnanswered ends a request that its client has cancelled, without an answer.
func (q *request) endUnanswered(w http.ResponseWriter) *mcp.Error {
	switch {
	case q.stream.end():
	case q.stream != nil:
		out := eventWriter{w: w}
		out.begin()
		out.finish(nil)
	default: // HTTP requires an answer, and the client accepts only JSON
		return &mcp.Error{Code: statusClientGone, Message: "cancelled by the client", Err: context.Canceled}
	}
	return nil
}

// statusClientGone is nginx's status for a request whose client has disconnected.
const statusClientGone = 499

// keepsSessions reports whether the process can keep state for a session.
func (h *handler) keepsSessions() bool { return h.live != nil && h.opts.Seal != nil }

// setLevel sets the log level of the client.
func (h *handler) setLevel(_ context.Context, q *request) (json.RawMessage, error) {
	level := mcp.ParseLogLevel(rawjson.Text(q.msg.Rest.Get("level")))
	switch {
	case level == 0:
		return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "params.level is none of debug, info, notice, warning, error, critical, alert, emergency"}
	case q.token == nil:
		return nil, needsSession("a level")
	}
	h.live.setLevel(q.token, level)
	return json.RawMessage("{}"), nil
}
