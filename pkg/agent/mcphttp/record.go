package mcphttp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// isAudited reports whether a request has an audit line. Requests without valid credentials have
// none, and polls that find a task unfinished have none.
func (h *handler) isAudited(q *request) bool {
	isKept := h.opts.Audit != nil || h.opts.AuditLog
	return isKept && q.agent.Way != "" && methods[q.msg.Method].call && !q.event.Routine
}

// deliver sends the written answer before the log and audit lines, so that these do not delay it.
// It reports whether the whole answer went to a connected client. In a function, deliver checks
// this only for calls, because the client gets the answer when the function ends.
func (h *handler) deliver(w http.ResponseWriter, r *http.Request, q *request, err error) bool {
	if err != nil || r.Context().Err() != nil || h.live == nil && !h.isAudited(q) {
		return false
	}
	err = http.NewResponseController(w).Flush()
	return err == nil || errors.Is(err, http.ErrNotSupported) // a writer without flush has sent everything already
}

// record writes the event of a finished request to the audit, the metrics, the span and the log.
// The log has no arguments and no results.
func (h *handler) record(r *http.Request, q *request, err *mcp.Error, code int) {
	ctx := r.Context()
	id, took := h.opts.RequestID(ctx), time.Since(q.start)
	level, failed, refusal := q.refusal(ctx, err, code)
	audited := h.audit(r, q, err != nil, took)
	if audited != nil {
		level = max(level, slog.LevelInfo) // no filter drops this level
	}
	counted := h.opts.Metrics.Request(&q.event.Counts, took, failed)
	if level < slog.LevelInfo && counted != nil { // filters may drop lower levels
		h.opts.Log.LogAttrs(ctx, slog.LevelInfo, "metrics", counted...)
		counted = nil
	}
	about := observe.SpanOf(ctx)
	about.Name("rpc.method", q.msg.Method)
	about.Name("request_id", id)
	about.Count("http.response.status_code", cmp.Or(code, http.StatusOK))
	if failed {
		about.Fail("internal error")
	}
	attrs := h.described(ctx, q, id, took, audited != nil)
	h.opts.Log.LogAttrs(ctx, level, "mcp request", slices.Concat(attrs, refusal, audited, counted)...)
}

// refusal returns the log attributes and the level of a request without a result, and whether
// something failed here.
func (q *request) refusal(ctx context.Context, err *mcp.Error, code int) (level slog.Level, failed bool, attrs []slog.Attr) {
	switch {
	case q.abandoned.Load():
		return slog.LevelDebug, false, []slog.Attr{slog.String("refusal", "the client cancelled the request")}
	case err == nil:
		return slog.LevelInfo, false, nil
	case errors.Is(err.Err, errBusy): // the gate counts these refusals
		return slog.LevelDebug, false, nil
	case q.clientGone(ctx, err): // nobody reads the answer, and nothing failed
		return slog.LevelDebug, false, []slog.Attr{slog.String("refusal", "the client is gone")}
	}
	attrs = []slog.Attr{
		slog.Int("http_status", code), slog.Int("code", err.Code), slog.String("refusal", clip(err.Message)),
	}
	if errors.Is(err.Err, errEnding) { // nothing failed
		return slog.LevelInfo, false, attrs
	}
	if err.Err != nil {
		attrs = append(attrs, slog.Any("error", err.Err))
	}
	_, tools := errors.AsType[*outcome.RPCError](err.Err) // the error is the tool's answer, so the gateway has not failed
	switch {
	case max(code, err.Status) >= http.StatusInternalServerError || err.Code == mcp.CodeInternal && !tools:
		return slog.LevelError, true, attrs
	case q.msg.Method == "" && (code == http.StatusNotFound || code == http.StatusMethodNotAllowed):
		return slog.LevelDebug, false, attrs // a scanner, not an MCP client
	}
	return slog.LevelInfo, false, attrs
}

// clientGone reports whether a request failed because its client went away, either during the work
// or before the whole request had arrived.
func (q *request) clientGone(ctx context.Context, err *mcp.Error) bool {
	return (errors.Is(ctx.Err(), context.Canceled) || q.stream.isBroken()) && errors.Is(err.Err, context.Canceled) ||
		!q.read && errors.Is(err.Err, io.ErrUnexpectedEOF)
}

// described returns the attributes that every request's log line has. For an audited request, the
// members of the audit line add the other facts.
func (h *handler) described(ctx context.Context, q *request, id string, took time.Duration, isAudited bool) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("method", clip(q.msg.Method)),
		slog.String("name", clip(q.msg.Name)),
		slog.String("agent", q.agent.ID),
		slog.Bool("modern", q.modern),
		text.Ms("took", took),
		slog.Int("bytes_in", q.bodyBytes),
		slog.String("request_id", id),
	}
	if isAudited {
		attrs = slices.DeleteFunc(attrs, func(a slog.Attr) bool {
			return a.Key == "method" || a.Key == "agent" || a.Key == "took_ms"
		})
	}
	if h.opts.Metrics.Logs() && !h.served.Load() && !h.served.Swap(true) {
		attrs = append(attrs, slog.Bool("cold", true))
	}
	if id := observe.TraceID(ctx); id != "" {
		attrs = append(attrs, slog.String("trace_id", id))
	}
	if q.msg.URI != "" {
		attrs = append(attrs, slog.String("resource", clip(q.msg.URI)))
	}
	return attrs
}

// audit writes the audit line of a call. If audit lines are part of the log, it returns the members
// of the line for the log line of the request, and otherwise nil.
func (h *handler) audit(r *http.Request, q *request, failed bool, took time.Duration) []slog.Attr {
	if !h.isAudited(q) {
		return nil
	}
	e := q.event
	e.Tool = cmp.Or(e.Tool, q.msg.Name, q.msg.URI, rawjson.Text(q.msg.Rest.Get("uri")))
	e.Ms = float64(took.Microseconds()) / 1000
	if q.abandoned.Load() && e.Outcome != "" {
		e.Outcome = audit.Cancelled
	}
	l := h.keep(r, q, e, failed)
	if !h.opts.AuditLog {
		return nil
	}
	return l.Attrs()
}

// keep completes the event of a call from the request, and writes the audit line, even if the
// request failed.
func (h *handler) keep(r *http.Request, q *request, e *audit.CallEvent, failed bool) audit.Line {
	if failed {
		e.Refuse()
	}
	e.Decision = cmp.Or(e.Decision, audit.Allowed)
	e.Method, e.Path = cmp.Or(e.Method, q.msg.Method), endpointPrefix+q.path
	e.Agent, e.Human, e.Client = q.agent.ID, q.agent.Human, q.agent.Client()
	e.Source = identity.Source(r, h.opts.TrustedProxies)
	e.Trace = mcp.TraceID(r.Header.Get("Traceparent"))
	l := e.End(time.Now())
	if h.opts.Audit != nil {
		_ = h.opts.Audit.Write(context.WithoutCancel(r.Context()), l) // Write logs its own errors
	}
	return l
}

// clip limits the length of a sender's or server's text in the log.
func clip(s string) string { return text.Clip(s, 200) }
