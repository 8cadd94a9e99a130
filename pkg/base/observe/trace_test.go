package observe_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/test/local"
)

// A receiver accepts spans as a collector does: in messages of the published schema, without
// unknown members.
type receiver struct {
	t      *testing.T
	URL    string
	status int
	hangs  bool

	mu     sync.Mutex
	asked  int
	header http.Header
	text   string
	spans  map[string]*otlp.Span
	ids    map[string][3]string // trace, span and parent id of each span
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{t: t, status: http.StatusOK, spans: map[string]*otlp.Span{}, ids: map[string][3]string{}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.URL = server.URL + "/v1/traces"
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if r.hangs {
		<-q.Context().Done()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	r.header, r.text = q.Header, r.text+string(body)
	var sent otlp.TracesData
	if err == nil {
		err = protojson.Unmarshal(body, &sent)
	}
	var raw struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct{ Name, TraceID, SpanID, ParentSpanID string }
			}
		}
	}
	if err == nil {
		err = json.Unmarshal(body, &raw)
	}
	if err != nil || q.URL.Path != "/v1/traces" || q.Header.Get("Content-Type") != "application/json" {
		r.t.Errorf("%s %s: %v\n%s", q.Method, q.URL.Path, err, body)
	}
	for _, s := range sent.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans() {
		r.spans[s.GetName()] = s
	}
	for _, s := range raw.ResourceSpans[0].ScopeSpans[0].Spans {
		r.ids[s.Name] = [3]string{s.TraceID, s.SpanID, s.ParentSpanID}
	}
	w.WriteHeader(r.status)
}

// attribute returns an attribute of a received span.
func (r *receiver) attribute(span, key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.spans[span].GetAttributes() {
		if a.GetKey() == key {
			return strings.Trim(strings.SplitN(a.GetValue().String(), ":", 2)[1], `"`)
		}
	}
	return ""
}

const callers = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestSpansReachAReceiver(t *testing.T) {
	r := newReceiver(t)
	tracer := observe.NewTracer(observe.TracerOptions{URL: r.URL, Service: "gate", Version: "1", Headers: func(context.Context) (http.Header, error) {
		return http.Header{"Api-Key": {"k"}}, nil
	}})
	inside := ""
	h := tracer.Handler(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		inside = observe.TraceID(q.Context())
		s := observe.StartSpan(q.Context(), observe.Search)
		s.End()
		s = observe.StartSpan(q.Context(), observe.Upstream)
		if !strings.HasPrefix(observe.TraceParent(s.Context), "00-"+inside+"-") {
			t.Errorf("parent %s", observe.TraceParent(s.Context))
		}
		s.Name("server", "notes")
		s.Name("reason", "")
		s.Count("attempts", 2)
		s.Fail("timeout")
		s.End()
		observe.SpanOf(q.Context()).Name("rpc.method", "tools/call")
	}), true)
	q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", nil)
	q.Header.Set("Traceparent", callers)
	h.ServeHTTP(httptest.NewRecorder(), q)

	root, search, up := r.ids["request"], r.ids["search"], r.ids["upstream"]
	if len(r.ids) != 3 || len(root[0]) != 32 || root[0] != inside || search[0] != root[0] || up[0] != root[0] || root[2] != "" || search[2] != root[1] || up[2] != root[1] {
		t.Errorf("spans %v", r.ids)
	}
	if root[0] == callers[3:35] {
		t.Error("the request continues the caller's trace without the option Callers")
	}
	if r.attribute("upstream", "server") != "notes" || r.attribute("upstream", "attempts") != "2" || r.attribute("request", "rpc.method") != "tools/call" || r.attribute("upstream", "reason") != "" {
		t.Errorf("sent %s", r.text)
	}
	if s := r.spans["upstream"]; s.GetStatus().GetCode() != otlp.Status_STATUS_CODE_ERROR || s.GetStatus().GetMessage() != "timeout" || s.GetKind() != otlp.Span_SPAN_KIND_CLIENT {
		t.Errorf("%v", s)
	}
	if s := r.spans["request"]; s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() || time.Since(time.Unix(0, int64(s.GetStartTimeUnixNano()))) > time.Minute || s.GetKind() != otlp.Span_SPAN_KIND_SERVER {
		t.Errorf("%v", s)
	}
	if r.header.Get("Api-Key") != "k" || !strings.Contains(r.text, `"service.name","value":{"stringValue":"gate"}`) {
		t.Errorf("%v %s", r.header, r.text)
	}
}

func TestTraceOfTheCaller(t *testing.T) {
	r := newReceiver(t)
	tracer := observe.NewTracer(observe.TracerOptions{URL: r.URL, Service: "gate", Callers: true})
	h := tracer.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), true)
	q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", nil)
	q.Header.Set("Traceparent", callers)
	h.ServeHTTP(httptest.NewRecorder(), q)
	if got := r.ids["request"]; got[0] != callers[3:35] || got[2] != callers[36:52] {
		t.Errorf("%v", got)
	}
}

// A failing receiver delays one request for a bounded time. Later requests do not wait.
func TestReceiverThatFails(t *testing.T) {
	for name, fail := range map[string]func(*receiver, *observe.TracerOptions){
		"answers 500": func(r *receiver, _ *observe.TracerOptions) { r.status = http.StatusInternalServerError },
		"hangs":       func(r *receiver, _ *observe.TracerOptions) { r.hangs = true },
		"is not there": func(_ *receiver, o *observe.TracerOptions) {
			o.URL = "http://127.0.0.1:1/v1/traces?key=hush"
		},
		"has a key that cannot be read": func(_ *receiver, o *observe.TracerOptions) {
			o.Headers = func(context.Context) (http.Header, error) { return nil, context.DeadlineExceeded }
		},
	} {
		t.Run(name, func(t *testing.T) {
			var (
				r   *receiver
				log *local.Buffer
				h   http.Handler
			)
			open := func() {
				r, log = newReceiver(t), &local.Buffer{}
				o := observe.TracerOptions{URL: r.URL, Service: "gate", Log: slog.New(slog.NewTextHandler(log, nil))}
				fail(r, &o)
				h = observe.NewTracer(o).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }), true)
			}
			send := func() {
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", nil)); w.Code != http.StatusTeapot {
					t.Errorf("a request is answered %d", w.Code)
				}
			}
			local.Quick(t, "the first request", time.Second, func() { open(); send() })
			local.Until(t, "the log reports lost spans", func() bool { return strings.Contains(log.String(), "spans lost") })
			local.Quick(t, "a request after that", 100*time.Millisecond, send)
			if strings.Count(log.String(), "spans lost") > 1 || r.asked > 1 || strings.Contains(log.String(), "hush") {
				t.Errorf("the receiver got %d requests, log: %s", r.asked, log)
			}
		})
	}
}

// Clients choose some names in spans. Even long names use little memory and traffic.
func TestLongNames(t *testing.T) {
	r := newReceiver(t)
	tracer := observe.NewTracer(observe.TracerOptions{URL: r.URL, Service: "gate"})
	s := tracer.Start(t.Context(), observe.Request)
	s.Name("rpc.method", strings.Repeat("m", 1<<20))
	s.End()
	tracer.Close(t.Context())
	if n := len(r.attribute("request", "rpc.method")); n == 0 || n > 300 {
		t.Errorf("a name of 1 MB is sent as %d bytes", n)
	}
}

func TestWithoutTraces(t *testing.T) {
	var none *observe.Tracer
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	if h := none.Handler(next, true); h == nil {
		t.Error("no handler")
	}
	none.Flush(t.Context())
	none.Close(t.Context())
	none.Start(t.Context(), observe.Sync).End()
	if observe.TraceID(t.Context()) != "" || observe.TraceParent(t.Context()) != "" {
		t.Error("there is a trace")
	}
	ctx := observe.NewMeter("portcullis", "mcp", nil).Begin(t.Context(), &observe.Counts{})
	for name, ctx := range map[string]context.Context{"alone": t.Context(), "in a request that is timed": ctx} {
		if n := testing.AllocsPerRun(1000, func() { work(ctx) }); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// work records values of one kind of work.
func work(ctx context.Context) {
	s := observe.StartSpan(ctx, observe.Search)
	s.Name("server", "notes")
	s.Count("attempts", 1)
	s.End()
}

func BenchmarkWithoutTraces(b *testing.B) {
	ctx := observe.NewMeter("portcullis", "mcp", nil).Begin(b.Context(), &observe.Counts{})
	b.ReportAllocs()
	for b.Loop() {
		work(ctx)
	}
}

func TestCloseSendsWhatWaits(t *testing.T) {
	r := newReceiver(t)
	tracer := observe.NewTracer(observe.TracerOptions{URL: r.URL, Service: "gate"})
	s := tracer.Start(t.Context(), observe.Sync)
	observe.StartSpan(s.Context, observe.Load).End()
	s.End()
	tracer.Close(t.Context())
	if len(r.ids) != 2 || r.ids["load"][2] != r.ids["sync"][1] {
		t.Errorf("%v", r.ids)
	}
}
