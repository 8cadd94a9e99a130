package observe

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// restTime is how long the exporter pauses after a failed send, so that requests do not wait for a
// receiver that is down.
const restTime = 30 * time.Second

// maxReply is the most bytes of a receiver's answer that the exporter reads.
const maxReply = 64 << 10

// An exporter sends spans to a receiver, as OTLP over HTTP in its JSON encoding.
//
// Source: "OTLP Specification 1.8.0", OpenTelemetry, "JSON Protobuf Encoding".
type exporter struct {
	o   TracerOptions
	now func() time.Time

	mu   sync.Mutex
	rest time.Time // end of the pause after a failed send
	lost int       // spans lost since the last log line
}

var _ sdk.SpanExporter = (*exporter)(nil)

func newExporter(o TracerOptions) *exporter {
	e := &exporter{o: o, now: o.Now}
	if e.now == nil {
		e.now = time.Now
	}
	e.o.Log = cmp.Or(e.o.Log, slog.New(slog.DiscardHandler))
	if e.o.Client == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		e.o.Client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return e
}

// ExportSpans implements [sdk.SpanExporter].
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if e.resting(len(spans)) || len(spans) == 0 {
		return nil
	}
	err := e.send(ctx, spans)
	if err != nil {
		e.failed(ctx, len(spans), err)
	}
	return nil // the error is logged; the SDK would also print it to standard error
}

// Shutdown implements [sdk.SpanExporter].
func (e *exporter) Shutdown(context.Context) error {
	e.o.Client.CloseIdleConnections()
	return nil
}

// resting reports whether the exporter pauses, and counts the n spans as lost if so.
func (e *exporter) resting(n int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.now().Before(e.rest) {
		e.lost += n
		return true
	}
	return false
}

func (e *exporter) failed(ctx context.Context, n int, err error) {
	e.mu.Lock()
	lost := e.lost + n
	e.lost, e.rest = 0, e.now().Add(restTime)
	e.mu.Unlock()
	e.o.Log.LogAttrs(ctx, slog.LevelWarn, "spans lost", slog.Int("spans", lost), slog.Any("error", err))
}

func (e *exporter) send(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	body, err := json.Marshal(encode(spans))
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.o.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if e.o.Headers != nil {
		if r.Header, err = e.o.Headers(ctx); err != nil {
			return err
		}
		r.Header = r.Header.Clone()
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := e.o.Client.Do(r)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err // without the address, which may contain a key
	}
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()                        // the body was only read
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxReply)) // to reuse the connection
	if res.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("the receiver answered with status %d", res.StatusCode)
	}
	return nil
}

// The message ExportTraceServiceRequest, with the fields that the exporter uses.
type (
	exportRequest struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   attributed   `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	attributed struct {
		Attributes []keyValue `json:"attributes,omitempty"`
	}
	scopeSpans struct {
		Scope struct {
			Name string `json:"name"`
		} `json:"scope"`
		Spans []span `json:"spans"`
	}
	span struct {
		TraceID  string `json:"traceId"` // hex, unlike other bytes in this encoding, which are base64
		SpanID   string `json:"spanId"`
		ParentID string `json:"parentSpanId,omitempty"`
		Flags    uint32 `json:"flags"`
		Name     string `json:"name"`
		Kind     int    `json:"kind"`
		Start    string `json:"startTimeUnixNano"` // 64-bit numbers are strings
		End      string `json:"endTimeUnixNano"`
		attributed
		Status *status `json:"status,omitempty"`
	}
	status struct {
		Message string `json:"message,omitempty"`
		Code    int    `json:"code"`
	}
	keyValue struct {
		Key   string `json:"key"`
		Value any    `json:"value"`
	}
)

const failedStatus = 2 // STATUS_CODE_ERROR

// encode converts spans of one process to the message.
func encode(spans []sdk.ReadOnlySpan) exportRequest {
	scoped := scopeSpans{Spans: make([]span, len(spans))}
	scoped.Scope.Name = scope
	for i, s := range spans {
		c := s.SpanContext()
		out := &scoped.Spans[i]
		*out = span{
			TraceID: c.TraceID().String(), SpanID: c.SpanID().String(), Flags: uint32(c.TraceFlags()), Name: s.Name(), Kind: int(s.SpanKind()),
			Start: strconv.FormatInt(s.StartTime().UnixNano(), 10), End: strconv.FormatInt(s.EndTime().UnixNano(), 10),
			attributed: attributed{keyValues(s.Attributes())},
		}
		if s.Parent().SpanID().IsValid() {
			out.ParentID = s.Parent().SpanID().String()
		}
		if s.Status().Code == codes.Error {
			out.Status = &status{s.Status().Description, failedStatus}
		}
	}
	return exportRequest{[]resourceSpans{{resourceOf(spans[0].Resource()), []scopeSpans{scoped}}}}
}

func resourceOf(r *resource.Resource) attributed { return attributed{keyValues(r.Attributes())} }

// keyValues converts attributes. The program uses only texts and whole numbers.
func keyValues(list []attribute.KeyValue) (out []keyValue) {
	for _, a := range list {
		value := map[string]string{"stringValue": a.Value.String()}
		if a.Value.Type() == attribute.INT64 {
			value = map[string]string{"intValue": strconv.FormatInt(a.Value.AsInt64(), 10)}
		}
		out = append(out, keyValue{string(a.Key), value})
	}
	return out
}
