package observe

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	otel "go.opentelemetry.io/otel/trace"
)

// A Kind is a kind of work. It is the name of its spans.
type Kind string

// The kinds.
const (
	Request  Kind = "request"  // of a client, from its first byte to the last of the answer
	Open     Kind = "open"     // what the request sees: config, catalog, decisions, read anew if they are old
	Search   Kind = "search"   // which tools rank first
	Record   Kind = "record"   // the record of a tool that is called, and what is stopped
	Upstream Kind = "upstream" // a call of a server
	Sync     Kind = "sync"     // one sync
	Load     Kind = "load"     // of one server's lists, in a sync
)

// A Span is work that has begun. It ends with [Span.End].
type Span struct {
	Context context.Context // of what belongs to it

	span   otel.Span // nil: nobody wants it
	counts *Counts   // of the request, whose log line sums its time up; nil: none does
	kind   Kind
	start  time.Time
}

// scope names the program in traces.
const scope = "portcullis"

// StartSpan begins a span within that of ctx.
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

// Name says what the span is about: a server, a tool, a method. An empty text says nothing.
func (s Span) Name(key, name string) {
	if s.span != nil && name != "" {
		s.span.SetAttributes(attribute.String(key, name))
	}
}

// Count says how many there were of something.
func (s Span) Count(key string, n int) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int(key, n))
	}
}

// Fail says that the work failed, for a reason that is a code of this program: never a text that
// somebody else wrote.
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

// SpanOf returns the span that ctx is in, which is its owner's to end.
func SpanOf(ctx context.Context) Span {
	s := Span{Context: ctx}
	if running := otel.SpanFromContext(ctx); running.IsRecording() {
		s.span = running
	}
	return s
}

// TraceID returns the id of the trace that ctx is in; "" if there is none.
func TraceID(ctx context.Context) string {
	if c := otel.SpanContextFromContext(ctx); c.IsSampled() {
		return c.TraceID().String()
	}
	return ""
}

// TraceParent returns the traceparent of W3C Trace Context for what ctx asks of others; "" if there
// is no trace.
func TraceParent(ctx context.Context) string {
	c := otel.SpanContextFromContext(ctx)
	if !c.IsSampled() {
		return ""
	}
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String()
}
