package upstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// cancelTimeout is the maximum time for the notification that a call is canceled.
const cancelTimeout = 500 * time.Millisecond

// Call sends one request and returns the result object, byte for byte. If the
// server answered with an error, Call returns an [*outcome.RPCError]. Any other failure is an
// [*outcome.CallError].
// Call makes an attempt even if the server's last outcome was a failure.
//
// Call retries a transient failure only in the remaining time, and only in two cases: the server
// provably did not process the call, or call.Retry says that a second call is safe.
func (c *Client) Call(ctx context.Context, t Target, call Call) (json.RawMessage, error) {
	start := c.o.Now()
	span := observe.StartSpan(ctx, observe.Upstream)
	defer span.End()
	ctx, call = span.Context, c.withTrace(span.Context, t, call)
	o := c.newOperation(t, false, call.Owner)
	defer o.release()
	o.server.noteUse(start)
	if t.Asks == AsksOff {
		call = unasked(call)
	}
	o.client, o.single = call.Client, call.Once
	if wait, ok := o.server.breaker.admit(start); !ok {
		out := outcome.Outcome{Status: outcome.Transient, Reason: outcome.ReasonBreakerOpen, RetryAfter: wait}
		return nil, &outcome.CallError{Outcome: c.ended(span, opCall, t, start, out)}
	}
	own, cancel := o.time(ctx, min(cmp.Or(t.Timeout, usualCall), c.limits.call))
	defer cancel()
	result, out, err := o.callWithRetry(ctx, own, call)
	o.noteRefusal(ctx, &out)
	out = c.ended(span, opCall, t, start, out)
	if o.outlived { // a slow tool is no failure of its server, so it must not open the breaker
		o.server.breaker.report(out.CheckedAt, outcome.Outcome{})
	} else {
		o.server.breaker.report(out.CheckedAt, out)
	}
	if rpc, ok := errors.AsType[*outcome.RPCError](err); ok && out.Status == outcome.Available {
		rpc = o.redacted(rpc)
		if note := o.questions.note(); note != "" {
			rpc.Message += ". " + note
		}
		if note := o.lostNote(call); note != "" && o.c.programs.takeLost(o.key) {
			rpc.Message += ". " + note
		}
		return nil, rpc
	}
	if err != nil {
		last := cmp.Or(o.last, &exchange{})
		return nil, &outcome.CallError{
			Outcome: out, Delivered: o.delivered, Repeatable: call.Retry, Session: last.session,
			Unpacked: last.unpacked, Note: o.questions.note(),
		}
	}
	result = o.scrubbed(result)
	if call.Method == mcp.MethodGetTask {
		result = o.redactedTask(result)
	}
	if note := o.questions.note(); note != "" {
		result = withNote(result, note)
	}
	return o.withLost(call, result), nil
}

// noteRefusal adds what the server requires to the outcome, if the server denied the call. If the
// call needs a sign-in, noteRefusal also tells the connections, because they cannot learn this from
// a load, which may succeed without a sign-in.
func (o *operation) noteRefusal(ctx context.Context, out *outcome.Outcome) {
	if !o.refused(out) {
		return
	}
	out.Connected = o.ep.token.Reveal() != ""
	out.Challenge = o.challenge(out)
	isMore := out.Connected && (out.Reason == outcome.ReasonInsufficientScope ||
		out.Reason == outcome.ReasonScopeNotAllowed)
	if o.c.o.Connections != nil && o.t.SignIn != nil && (out.NeedsSignIn() || isMore) {
		o.c.o.Connections.Refused(ctx, o.t.signInServer(), *out)
	}
}

// time returns the context of a call. The context ends after limit.
func (o *operation) time(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if o.client.Ask == nil {
		return o.c.within(ctx, limit)
	}
	var stop context.CancelFunc
	o.clock, stop = o.c.newClock(ctx, limit)
	return o.clock, stop
}

func (o *operation) callWithRetry(caller, own context.Context, call Call) (result json.RawMessage, out outcome.Outcome, err error) {
	again := func(out outcome.Outcome) bool {
		return out.Status == outcome.Transient && (call.Retry || o.session == nil || notProcessed(o.last, o.t.BehindProxy))
	}
	out, err = o.retry(own, again, func() (outcome.Outcome, error) {
		out, err := o.attempt(caller, own, func() (err error) {
			if err = o.begin(own); err == nil {
				result, err = o.do(own, func(s mcpSession) (message, error) { return o.c.callMessage(s, call) })
			}
			return err
		})
		o.outlived = own.Err() != nil && out.Reason == outcome.ReasonTimeout && o.sentCall()
		if err != nil && own.Err() != nil {
			o.cancelUpstream(own)
		}
		if rpc, ok := errors.AsType[*outcome.RPCError](err); ok && rpc.Code != mcp.CodeVersion && out.Reason != outcome.ReasonAborted {
			out = outcome.Outcome{Status: outcome.Available, Reason: outcome.ReasonUpstreamError} // the tool's own error
		} else if errors.Is(err, errTooLong) && o.sentCall() {
			out = outcome.Outcome{Status: outcome.Available, Reason: outcome.ReasonTooLarge, HTTPStatus: out.HTTPStatus} // the server works
		}
		return out, err
	})
	return result, out, err
}

// isTaskMethod reports whether a request is about a task of an earlier call.
func isTaskMethod(method string) bool {
	return method == mcp.MethodGetTask || method == mcp.MethodUpdateTask ||
		method == mcp.MethodCancelTask
}

// sentCall reports whether the last exchange was the call itself, on an open connection.
func (o *operation) sentCall() bool { return o.session != nil && o.last != nil && o.last.sent }

// callMessage builds the request for session s.
func (c *Client) callMessage(s mcpSession, call Call) (message, error) {
	if isTaskMethod(call.Method) && !s.modern {
		// The handshake protocol has other requests of these names. The server had the task while
		// it used the stateless protocol.
		return message{}, &outcome.RPCError{Code: mcp.CodeInvalidParams, Message: "unknown task"}
	}
	p := forwardMeta(call)
	m := message{method: cmp.Or(call.Method, mcp.MethodCallTool), name: call.Name, header: http.Header{}}
	if call.Client.Progress && call.Client.Notify != nil {
		m.id = c.nextID.Add(1) // a unique id for this request
		p.progress = m.id
	}
	m.params = c.callParams(s, call, p)
	if p.traceparent != "" {
		m.header.Set("Traceparent", p.traceparent)
	}
	if p.tracestate != "" {
		m.header.Set("Tracestate", p.tracestate)
	}
	if !s.modern {
		return m, nil
	}
	bound, err := tool.HeaderParams(call.Schema) // arguments that the tool's schema repeats as headers
	for _, b := range bound {
		if v, ok := b.Value(call.Arguments); ok {
			m.header.Set(b.Header, tool.EncodeHeader(v))
		}
	}
	return m, err
}

// notProcessed reports whether an exchange proves that the server did not begin the call. The proof
// is a failed connection, or a rejection before the server read the call. Envoy also sends 503 when
// a connection breaks after Envoy has sent the call. Behind Envoy, a 503 therefore needs Envoy's
// headers as proof. A server that sends a 503 with a JSON-RPC message has read the call.
func notProcessed(x *exchange, proxy string) bool {
	switch {
	case x == nil || !x.sent:
		return true
	case rejectedUnread(x.status):
		// A timeout in the report of an authorization proxy may be the server's timeout.
		return !(&evidence{exchange: x, proxy: proxy}).authorizationOut()
	case x.status != http.StatusServiceUnavailable, x.maybeRPC():
		return false
	}
	if x.envoySays("UC", "UR", "UPE", "LR", "UT") || strings.HasPrefix(x.header.Get("X-Envoy-Response-Code-Details"), "upstream_reset") {
		return false
	}
	return proxy != "envoy" || len(x.envoyFlags()) > 0 || len(x.header.Values("X-Envoy-Upstream-Service-Time")) > 0
}

// rejectedUnread reports whether an HTTP status means that the server refused the request without
// processing it. 400, 408, 409 and 422 do not count, because servers also send them when a tool
// failed half-way.
func rejectedUnread(status int) bool {
	switch status {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
		http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusProxyAuthRequired, http.StatusLengthRequired,
		http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusUnsupportedMediaType,
		http.StatusMisdirectedRequest, http.StatusTooEarly, http.StatusUpgradeRequired, http.StatusTooManyRequests,
		http.StatusRequestHeaderFieldsTooLarge, http.StatusUnavailableForLegalReasons:
		return true
	}
	return false
}

// cancelUpstream tells a server of the handshake protocol that the call is canceled. A closed
// connection does not cancel a call in the handshake protocol. In the stateless protocol it does.
func (o *operation) cancelUpstream(ctx context.Context) {
	if o.session == nil || o.session.modern || !o.sentCall() {
		return
	}
	defer func(x *exchange) { o.last = x }(o.last)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	params := rawjson.Object{
		{Name: "requestId", Value: strconv.AppendInt(nil, o.requestID, 10)},
		{Name: "reason", Value: rawjson.Quote("the caller no longer waits")},
	}
	// Best effort: the call has failed already, and Call reports that failure.
	_ = o.notify(ctx, *o.session, mcp.NotificationCancelled, params)
}
