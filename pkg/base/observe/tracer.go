package observe

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	otel "go.opentelemetry.io/otel/trace"
)

// TracerOptions say where spans go.
type TracerOptions struct {
	URL     string                                     // of an OTLP receiver, with its path
	Headers func(context.Context) (http.Header, error) // that it wants; nil: none
	Service string                                     // the program's name in traces
	Version string
	Callers bool         // a request's trace is its caller's, if its traceparent says so; else its own
	Client  *http.Client // nil: one of its own
	Log     *slog.Logger // nil: none
	Now     func() time.Time
}

const (
	// flushTime is how long the answer to a request may wait for its spans, where the process stops
	// once it has answered.
	flushTime = 300 * time.Millisecond

	exportTime = 2 * time.Second // of one attempt to send spans, elsewhere
	maxQueue   = 2048            // spans that wait; more are lost
	maxBatch   = 256
	maxName    = 256 // characters of an attribute: clients choose methods and names
)

// A Tracer makes spans of requests and syncs, and sends them. A nil Tracer makes none. It is safe for
// concurrent use.
type Tracer struct {
	provider *sdk.TracerProvider
	callers  bool
}

// NewTracer returns a Tracer. It makes no call.
func NewTracer(o TracerOptions) *Tracer {
	about := resource.NewSchemaless(attribute.String("service.name", o.Service), attribute.String("service.version", o.Version))
	if named, err := resource.Merge(about, resource.Environment()); err == nil { // OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
		about = named
	}
	limits := sdk.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxName
	return &Tracer{callers: o.Callers, provider: sdk.NewTracerProvider(
		sdk.WithResource(about), sdk.WithRawSpanLimits(limits),
		sdk.WithBatcher(newExporter(o), sdk.WithExportTimeout(exportTime), sdk.WithMaxQueueSize(maxQueue), sdk.WithMaxExportBatchSize(maxBatch)),
	)}
}

// Start begins a span that is in no other one of this process.
func (t *Tracer) Start(ctx context.Context, k Kind) Span {
	if t == nil {
		return Span{Context: ctx}
	}
	s := Span{}
	kind := otel.SpanKindInternal
	if k == Request {
		kind = otel.SpanKindServer
	}
	s.Context, s.span = t.provider.Tracer(scope).Start(ctx, string(k), otel.WithSpanKind(kind))
	return s
}

// Flush sends what waits, as far as it can in the time that an answer may wait. What cannot be sent is
// lost.
func (t *Tracer) Flush(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	_ = t.provider.ForceFlush(ctx) // the exporter has said why
}

// Close sends what waits, before the program ends.
func (t *Tracer) Close(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), exportTime)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // the exporter has said why
}

// Handler returns next with a span for each request. Where the process stops once it has answered,
// flush has the spans sent before that.
func (t *Tracer) Handler(next http.Handler, flush bool) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if t.callers {
			ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
		}
		s := t.Start(ctx, Request)
		s.Name("http.request.method", r.Method)
		if flush {
			defer t.Flush(s.Context)
		}
		defer s.End()
		next.ServeHTTP(w, r.WithContext(s.Context))
	})
}
