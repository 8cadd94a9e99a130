package observe

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	otel "go.opentelemetry.io/otel/trace"
)

// A Kind is a kind of work, and the name of its spans.
type Kind string

// The kinds.
const (
	Request  Kind = "request"  // of a client, from its first byte to the last byte of the answer
	Open     Kind = "open"     // refresh of config, catalog and decisions for a request
	Search   Kind = "search"   // ranking of tools
	Record   Kind = "record"   // read of a called tool's record and of stops
	Upstream Kind = "upstream" // a call to a server
	Sync     Kind = "sync"     // one sync
	Load     Kind = "load"     // of one server's lists, in a sync
)

// A Span is work in progress. It ends with [Span.End].
type Span struct {
	Context context.Context // for the work of the span

	span   otel.Span // nil: the work is not traced
	counts *Counts   // of the request whose log line includes the span's time; nil: no request
	kind   Kind
	start  time.Time
}

// scope is the program's name in traces.
const scope = "portcullis"

// StartSpan begins a child of the span of ctx.
func StartSpan(ctx context.Context, k Kind) Span {
	s := Span{Context: ctx, counts: countsOf(ctx), kind: k}
	if s.counts != nil {
		s.start = time.Now()
	}
	if parent := otel.SpanFromContext(ctx); parent.IsRecording() {
		kind := otel.SpanKindInternal
		if k == Upstream || k == Load {
			kind = otel.SpanKindClient
		}
		s.Context, s.span = parent.TracerProvider().Tracer(scope).Start(ctx, string(k), otel.WithSpanKind(kind))
	}
	return s
}

// Name records the subject of the span: a server, a tool or a method. An empty name records
// nothing.
func (s Span) Name(key, name string) {
	if s.span != nil && name != "" {
		s.span.SetAttributes(attribute.String(key, name))
	}
}

// Count records a number.
func (s Span) Count(key string, n int) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int(key, n))
	}
}

// Fail records that the work failed. reason is a code of this program, never text from outside the
// program.
func (s Span) Fail(reason string) {
	if s.span != nil {
		s.span.SetStatus(codes.Error, reason)
	}
}

// End ends the span.
func (s Span) End() {
	if s.counts != nil {
		s.counts.spend(s.kind, time.Since(s.start))
	}
	if s.span != nil {
		s.span.End()
	}
}

// SpanOf returns the span of ctx. The caller must not end it, because it belongs to other code.
func SpanOf(ctx context.Context) Span {
	s := Span{Context: ctx}
	if running := otel.SpanFromContext(ctx); running.IsRecording() {
		s.span = running
	}
	return s
}

// TraceID returns the id of the trace of ctx, or "" if there is none.
func TraceID(ctx context.Context) string {
	if c := otel.SpanContextFromContext(ctx); c.IsSampled() {
		return c.TraceID().String()
	}
	return ""
}

// TraceParent returns the value of the header traceparent (W3C Trace Context) for requests that are
// sent with ctx, or "" if there is no trace.
func TraceParent(ctx context.Context) string {
	c := otel.SpanContextFromContext(ctx)
	if !c.IsSampled() {
		return ""
	}
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String()
}
