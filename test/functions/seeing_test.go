package functions_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/lambdatest"
)

// A receiver records spans.
type receiver struct {
	mu    sync.Mutex
	text  string
	names []string
	key   string
}

func (r *receiver) ServeHTTP(_ http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body) // a partial body is not valid JSON
	var sent struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []struct{ Name string } }
		}
	}
	_ = json.Unmarshal(body, &sent) // without valid JSON there are no spans
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text, r.key = r.text+string(body), q.Header.Get("Api-Key")
	for _, resource := range sent.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				r.names = append(r.names, s.Name)
			}
		}
	}
}

// took returns the names of the spans that arrived since its last call.
func (r *receiver) took() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := r.names
	r.names = nil
	slices.Sort(names)
	return slices.Compact(names)
}

// Spans reach their receiver before the caller gets the answer, and contain no secrets.
func (g suite) tracesRequests(t *testing.T) {
	w := g.fixture(t)
	w.Parameter("/portcullis/traces", "api-key=k%2B1")
	r := &receiver{}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	settings := []string{"OTEL_EXPORTER_OTLP_ENDPOINT", server.URL, "OTEL_EXPORTER_OTLP_HEADERS", "ssm:/portcullis/traces"}
	want := func(what string, names ...string) {
		t.Helper()
		got := r.took()
		for _, name := range names {
			if !slices.Contains(got, name) {
				t.Errorf("%s: spans %v, want %s among them", what, got, name)
			}
		}
	}
	if a := w.Start(t, "sync", settings...).Invoke(nil); a.Failed {
		t.Fatalf("sync: %s", a.Payload)
	}
	want("a sync", "sync", "load")
	f := w.Start(t, "mcp", settings...)
	f.Call("retrieve_tools", `{"query":"search issues"}`)
	want("a search", "request", "open", "search")
	f.Call("call_tool_read", `{"name":"github:search_issues","args":{"query":"the words of a person"}}`)
	want("a call", "request", "open", "record", "upstream")
	if r.key != "k+1" || !strings.Contains(r.text, `"github:search_issues"`) || !strings.Contains(r.text, `"github"`) {
		t.Errorf("spans with the key %q: %s", r.key, r.text)
	}
	w.wantQuiet(t, strings.ReplaceAll(r.text, server.URL, ""))
	for _, hidden := range []string{"words of a person", "anonymous", "search issues"} {
		if strings.Contains(r.text, hidden) {
			t.Errorf("spans contain %q: %s", hidden, r.text)
		}
	}
	if h := w.github.Calls()[0].Header.Get("Traceparent"); h != "" {
		t.Errorf("a server without trace settings receives the trace %s", h)
	}
	server.Close()
	if got := f.Call("retrieve_tools", `{"query":"search issues"}`); got.IsError {
		t.Errorf("a search without a span receiver answers %s", got.Raw)
	}
	if lines := f.Output(); !strings.Contains(lines, `"trace_id":"`) || strings.Count(lines, `"cold":true`) != 1 {
		t.Errorf("lines: %s", lines)
	}
}

// An operator replaces the key of agent tokens while functions run. Tokens stay valid until the key
// is replaced a second time.
func (g suite) replacesTokenKey(t *testing.T) {
	w := g.fixture(t)
	w.Sync(t)
	key := w.Env["PORTCULLIS_SEAL_KEY"] // use the seal key as token key
	settings := []string{"PORTCULLIS_AUTH", "token", "PORTCULLIS_TOKEN_KEY", key}
	var made struct{ Token string }
	w.Start(t, "admin", settings...).Ask(http.StatusCreated, "/admin/tokens",
		`{"name":"ci","servers":["*"],"tiers":["read"],"days":1}`, &made)
	want := func(what string, f *lambdatest.Function, status int) {
		t.Helper()
		a := f.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Authorization: Bearer "+made.Token)
		if a.Status != status {
			t.Errorf("%s: %d %s, want %d", what, a.Status, a.Body, status)
		}
	}
	first := w.Start(t, "mcp", settings...)
	want("a new token", first, http.StatusOK)
	w.ReplaceSealKey()
	want("in an environment that has read the old key", first, http.StatusOK)
	w.proxy.Set("secretsmanager", lambdatest.Gone)
	blind := w.Start(t, "mcp", settings...)
	want("in an environment that cannot read the key", blind, http.StatusServiceUnavailable)
	w.proxy.Set("secretsmanager", lambdatest.None)
	want("after the key is readable again", blind, http.StatusOK)
	w.ReplaceSealKey()
	want("two keys ago", w.Start(t, "mcp", settings...), http.StatusUnauthorized)
}
