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

// TracerOptions say where to send spans.
type TracerOptions struct {
	URL     string                                     // of an OTLP receiver, with its path
	Headers func(context.Context) (http.Header, error) // for the receiver; nil: none
	Service string                                     // the program's name in traces
	Version string
	Callers bool         // a request continues the trace in its traceparent
	Client  *http.Client // nil: a new one
	Log     *slog.Logger // nil: no log
	Now     func() time.Time
}

const (
	// flushTime is how long the answer to a request may wait for its spans, if the process stops
	// after the answer.
	flushTime = 300 * time.Millisecond

	exportTime = 2 * time.Second // of one attempt to send spans in the background
	maxQueue   = 2048            // waiting spans; more are lost
	maxBatch   = 256
	maxName    = 256 // characters of an attribute: clients choose methods and names
)

// A Tracer makes spans of requests and syncs, and sends them. A nil Tracer makes none. It is safe
// for concurrent use.
type Tracer struct {
	provider *sdk.TracerProvider
	callers  bool
}

// NewTracer returns a Tracer. It sends nothing yet.
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

// Start begins a span without a parent in this process.
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

// Flush sends the waiting spans for at most the time that an answer may wait. Spans that it cannot
// send are lost.
func (t *Tracer) Flush(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	_ = t.provider.ForceFlush(ctx) // the exporter has logged the reason
}

// Close sends the waiting spans before the program ends.
func (t *Tracer) Close(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), exportTime)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // the exporter has logged the reason
}

// Handler wraps next with a span for each request. If flush is set, it sends the spans before the
// request ends. Set flush if the process stops after the answer.
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
