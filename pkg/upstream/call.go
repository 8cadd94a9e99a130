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
)

// cancelTimeout bounds the notice to a server that its answer is no longer awaited.
const cancelTimeout = 500 * time.Millisecond

// Call sends one tools/call and returns the result object, byte for byte. It returns an
// [*RPCError] if the server answered with one, and a [*CallError] otherwise. Whatever the
// last outcome of the server was, Call tries.
//
// It tries again after a transient failure only if the call was provably not
// processed, or call.Retry says that twice does no harm, and only inside the time left.
func (c *Client) Call(ctx context.Context, t Target, call Call) (json.RawMessage, error) {
	start := c.o.Now()
	o := c.newOp(t)
	out := Outcome{ServerID: t.ID}
	if wait, ok := o.peer.admit(start); !ok {
		out.Status, out.Reason, out.RetryAfter = Transient, ReasonBreakerOpen, wait
		out.CheckedAt = start
		c.ended(ctx, "call", out)
		return nil, &CallError{out}
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
	o.peer.report(out.CheckedAt, v)
	c.ended(ctx, "call", out)
	if rpc, ok := errors.AsType[*RPCError](err); ok && v.Status == Available {
		return nil, rpc.redacted(o.secrets())
	}
	if err != nil {
		return nil, &CallError{out}
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
		return v.Status == Transient && (call.Retry || o.leg == nil || notProcessed(o.trail.last, o.t.BehindProxy))
	}
	v, attempts = o.c.retry(own, again, func() Verdict {
		if err = o.begin(own); err == nil {
			result, err = o.do(own, func(l leg) (message, error) { return o.c.callMessage(l, call) })
		}
		v := o.verdict(caller, own, err)
		if err != nil && own.Err() != nil {
			o.cancelUpstream(own)
		}
		if rpc, ok := errors.AsType[*RPCError](err); ok && rpc.Code != codeVersion && v.Reason != ReasonAborted {
			return Verdict{Status: Available, Reason: ReasonUpstreamError} // the tool's own answer
		}
		return v
	})
	if o.nothingSent(v) {
		attempts = 0
	}
	return result, v, attempts, err
}

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
	bound, err := bindings(call.Schema)
	if err != nil || len(bound) == 0 {
		return err
	}
	var arguments json.RawMessage
	_ = members(call.Params, func(name string, value json.RawMessage) error { // callParams has read it before
		if name == "arguments" {
			arguments = value
		}
		return nil
	})
	for _, b := range bound {
		if s, ok := b.value(arguments); ok {
			h.Set(paramPrefix+b.header, headerText(s))
		}
	}
	return nil
}

// notProcessed tells an exchange of a tools/call that proves that the server did not begin the call: no
// connection was had, or it was turned away at the door. Envoy says 503 also for
// a connection that broke after the call was sent, so behind it a 503 needs its word.
func notProcessed(x *Exchange, proxy string) bool {
	switch {
	case x == nil || !x.Sent:
		return true
	case x.Status == http.StatusTooManyRequests:
		return true
	case x.Status != http.StatusServiceUnavailable:
		return false
	}
	flags := envoyFlags(x.Header)
	broke := func(flag string) bool { return slices.Contains([]string{"UC", "UR", "UPE", "LR", "UT"}, flag) }
	if slices.ContainsFunc(flags, broke) || strings.HasPrefix(x.Header.Get("X-Envoy-Response-Code-Details"), "upstream_reset") {
		return false
	}
	return proxy != "envoy" || len(flags) > 0 || len(x.Header.Values("X-Envoy-Upstream-Service-Time")) > 0
}

// cancelUpstream tells a server of the handshake era that the answer is not awaited any
// more; there a closed connection does not mean that. In the stateless era it does.
func (o *op) cancelUpstream(ctx context.Context) {
	x := o.trail.last
	if o.leg == nil || o.leg.modern || x == nil || !x.Sent {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	var params object
	params.add("requestId", strconv.AppendInt(nil, o.requestID, 10))
	params.add("reason", quote("the caller no longer waits"))
	// Best effort: the call has failed already, and that is what is reported.
	_ = o.notify(ctx, *o.leg, "notifications/cancelled", params.end())
}
