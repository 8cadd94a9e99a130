package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// cancelTimeout bounds the notice to a server that its answer is no longer awaited.
const cancelTimeout = 500 * time.Millisecond

// Call sends one tools/call and returns the result object, byte for byte. It returns an
// [*RPCError] if the server answered with one, and a [*outcome.CallError] otherwise. Whatever the
// last outcome of the server was, Call tries.
//
// It tries again after a transient failure only if the call was provably not
// processed, or call.Retry says that twice does no harm, and only inside the time left.
func (c *Client) Call(ctx context.Context, t Target, call Call) (json.RawMessage, error) {
	start := c.o.Now()
	o := c.newCall(t, call.Owner)
	defer o.release()
	out := outcome.Outcome{ServerID: t.ID}
	if wait, ok := o.peer.admit(start); !ok {
		out.Status, out.Reason, out.RetryAfter = outcome.Transient, outcome.ReasonBreakerOpen, wait
		out.CheckedAt = start
		c.ended(ctx, "call", out)
		return nil, &outcome.CallError{Outcome: out}
	}
	limit := c.limits.call
	if t.Timeout > 0 {
		limit = min(limit, t.Timeout)
	}
	own, cancel := c.within(ctx, limit)
	defer cancel()
	result, v, attempts, err := o.callWithRetry(ctx, own, call)
	out.CheckedAt = c.o.Now()
	out.Duration = out.CheckedAt.Sub(start)
	out.Status, out.Reason, out.HTTPStatus, out.RetryAfter, out.Attempts = v.Status, v.Reason, v.HTTPStatus, v.RetryAfter, attempts
	if err != nil {
		out.Error = o.text(err)
	}
	if o.outlived {
		v = Verdict{} // a slow tool is no failure of its server: the breaker learns nothing
	}
	o.peer.report(out.CheckedAt, v)
	c.ended(ctx, "call", out)
	if rpc, ok := errors.AsType[*RPCError](err); ok && out.Status == outcome.Available {
		rpc = rpc.redacted(o.secrets(), o.scrubber())
		if o.refused {
			rpc.Message += ". " + outcome.AskedNote
		}
		return nil, rpc
	}
	if err != nil {
		return nil, &outcome.CallError{Outcome: out, Delivered: o.delivered, Repeatable: call.Retry, Session: o.trail.last != nil && o.trail.last.Session, Asked: o.refused}
	}
	result = o.scrubbed(result)
	if o.refused {
		result = withNote(result)
	}
	return result, nil
}

func (o *op) callWithRetry(caller, own context.Context, call Call) (result json.RawMessage, v Verdict, attempts int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p}
			v = Classify(Evidence{Err: err})
		}
	}()
	again := func(v Verdict) bool {
		return v.Status == outcome.Transient && (call.Retry || o.leg == nil || notProcessed(o.trail.last, o.t.BehindProxy))
	}
	v, attempts = o.c.retry(own, again, func() Verdict {
		if err = o.begin(own); err == nil {
			result, err = o.do(own, func(l leg) (message, error) { return o.c.callMessage(l, call) })
		}
		v := o.verdict(caller, own, err)
		o.outlived = own.Err() != nil && v.Reason == outcome.ReasonTimeout && o.sentCall()
		if err != nil && own.Err() != nil {
			o.cancelUpstream(own)
		}
		if rpc, ok := errors.AsType[*RPCError](err); ok && rpc.Code != codeVersion && v.Reason != outcome.ReasonAborted {
			return Verdict{Status: outcome.Available, Reason: outcome.ReasonUpstreamError} // the tool's own answer
		}
		if errors.Is(err, errTooLong) && o.sentCall() {
			return Verdict{Status: outcome.Available, Reason: outcome.ReasonTooLarge, HTTPStatus: v.HTTPStatus} // the server is well
		}
		return v
	})
	if o.nothingSent(v) {
		attempts = 0
	}
	return result, v, attempts, err
}

// sentCall reports whether the last exchange was the call itself, on a connection that was had.
func (o *op) sentCall() bool { return o.leg != nil && o.trail.last != nil && o.trail.last.Sent }

// callMessage builds a tools/call for leg l.
func (c *Client) callMessage(l leg, call Call) (message, error) {
	params, p, err := c.callParams(l, call)
	if err != nil {
		return message{}, err
	}
	m := message{method: "tools/call", params: params, name: call.Name, header: http.Header{}}
	if p.traceparent != "" {
		m.header.Set("Traceparent", p.traceparent)
	}
	if p.tracestate != "" {
		m.header.Set("Tracestate", p.tracestate)
	}
	if l.modern {
		err = mirror(m.header, call)
	}
	return m, err
}

// mirror repeats arguments as headers where the tool's schema asks for it.
func mirror(h http.Header, call Call) error {
	bound, err := tool.HeaderParams(call.Schema)
	if err != nil || len(bound) == 0 {
		return err
	}
	arguments := rawjson.Get(call.Params, "arguments")
	for _, b := range bound {
		if s, ok := b.Value(arguments); ok {
			h.Set(b.Header, tool.EncodeHeader(s))
		}
	}
	return nil
}

// notProcessed reports whether an exchange proves that the server did not begin the call: no
// connection was had, or it was turned away at the door. Envoy says 503 also for
// a connection that broke after the call was sent, so behind it a 503 needs its word. A 503
// with a JSON-RPC message is from behind the door, from a server that has read the call.
func notProcessed(x *Exchange, proxy string) bool {
	switch {
	case x == nil || !x.Sent:
		return true
	case atTheDoor(x.Status):
		// What an authorization proxy says of a time-out may be about the server.
		return !(&findings{Evidence: Evidence{Exchange: x, BehindProxy: proxy}, code: x.Status}).authzOut()
	case x.Status != http.StatusServiceUnavailable, maybeRPC(x):
		return false
	}
	flags := envoyFlags(x.Header)
	broke := func(flag string) bool { return slices.Contains([]string{"UC", "UR", "UPE", "LR", "UT"}, flag) }
	if slices.ContainsFunc(flags, broke) || strings.HasPrefix(x.Header.Get("X-Envoy-Response-Code-Details"), "upstream_reset") {
		return false
	}
	return proxy != "envoy" || len(flags) > 0 || len(x.Header.Values("X-Envoy-Upstream-Service-Time")) > 0
}

// atTheDoor reports whether an HTTP status means that the request was refused as such. 400, 408,
// 409 and 422 are not among them: servers also answer so when a tool failed half-way.
func atTheDoor(status int) bool {
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

// cancelUpstream tells a server of the handshake era that the answer is not awaited any
// more; there a closed connection does not mean that. In the stateless era it does.
func (o *op) cancelUpstream(ctx context.Context) {
	if o.leg == nil || o.leg.modern || !o.sentCall() {
		return
	}
	defer func(x *Exchange) { o.trail.last = x }(o.trail.last)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	params := rawjson.Object{
		{Name: "requestId", Value: strconv.AppendInt(nil, o.requestID, 10)},
		{Name: "reason", Value: rawjson.Quote("the caller no longer waits")},
	}
	// Best effort: the call has failed already, and that is what is reported.
	_ = o.notify(ctx, *o.leg, "notifications/cancelled", params.Bytes())
}
