package mcphttp

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

// gather returns the context of one request, in which is gathered what its line says.
func (h *handler) gather(ctx context.Context) context.Context {
	ctx = h.opts.Metrics.Begin(ctx)
	if h.opts.Audit != nil || h.opts.AuditLog {
		ctx = audit.Begin(ctx)
	}
	return ctx
}

// isCall reports whether a request is a line of the audit. Whoever could not prove who it is has
// called nothing.
func (q *request) isCall() bool { return q.agent.Way != "" && methods[q.msg.Method].call }

// deliver sends what was written of an answer, so that no line of the log or the audit delays it, and
// reports whether all of it went to a client that is still there. A function, whose client has the answer
// when the function ends, asks that of calls alone.
func (h *handler) deliver(w http.ResponseWriter, r *http.Request, q *request, err error) bool {
	if err != nil || r.Context().Err() != nil || h.live == nil && (audit.Of(r.Context()) == nil || !q.isCall()) {
		return false
	}
	err = http.NewResponseController(w).Flush()
	return err == nil || errors.Is(err, http.ErrNotSupported) // what cannot be flushed is handed on whole
}

// audit writes the line of a call. Where it goes to the log it returns its members instead; nil: there
// are none.
func (h *handler) audit(r *http.Request, q *request, err *mcp.Error, took time.Duration) []slog.Attr {
	call := audit.Of(r.Context())
	if call == nil || !q.isCall() {
		return nil
	}
	l := h.line(call, r, q, err != nil)
	l.Tool = cmp.Or(l.Tool, q.msg.Name, q.msg.URI, rawjson.Text(q.msg.Rest.Get("uri")))
	l.ResultBytes, l.Delivered = q.resultBytes, q.delivered
	l.Ms = float64(took.Microseconds()) / 1000
	if q.abandoned.Load() && l.Outcome != "" {
		l.Outcome = audit.Cancelled
	}
	h.keep(r.Context(), l)
	if !h.opts.AuditLog {
		return nil
	}
	return l.Attrs()
}

// line returns the line of a call, with what the request says.
func (h *handler) line(call *audit.Call, r *http.Request, q *request, failed bool) audit.Line {
	if failed {
		call.Refuse()
	}
	l := call.Line(time.Now())
	l.Decision = cmp.Or(l.Decision, audit.Allowed)
	l.Method, l.Path = q.msg.Method, endpointPrefix+q.path
	l.Agent, l.Human = q.agent.ID, q.agent.Human
	l.Source = identity.Source(r, h.opts.TrustedProxies)
	l.Trace = mcp.TraceID(r.Header.Get("Traceparent"))
	return l
}

// keep writes a line, whatever has become of its request.
func (h *handler) keep(ctx context.Context, l audit.Line) {
	if h.opts.Audit != nil {
		_ = h.opts.Audit.Write(context.WithoutCancel(ctx), l) // it has said so itself
	}
}

// auditRead writes the line of a resource that was read for a subscription that begins. That it is read
// again later is no call: nothing is passed on but that it has changed.
func (h *handler) auditRead(ctx context.Context, r *http.Request, q *request, uri string, err error) {
	call := audit.Of(ctx)
	if call == nil {
		return
	}
	l := h.line(call, r, q, err != nil)
	l.Tool = cmp.Or(l.Tool, uri)
	h.keep(ctx, l)
}
