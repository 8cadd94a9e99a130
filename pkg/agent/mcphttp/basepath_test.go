package mcphttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
)

// echo answers with the escaped path of the request.
var echo = http.HandlerFunc(
	func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.EscapedPath()) },
)

func TestBelow(t *testing.T) {
	const base, people = "https://example.com/tools/gate", "https://people.example.com/x"
	h := mcphttp.Below(echo, base, people)
	const wellKnown = "/.well-known/oauth-protected-resource"
	for sent, want := range map[string]string{
		"/tools/gate/mcp":                     "/mcp",
		"/tools/gate/":                        "/",
		"/tools/gate/admin/tools/a/b%2Fc?q=1": "/admin/tools/a/b%2Fc",
		"/tools/gate/tools/gate/mcp":          "/tools/gate/mcp",
		"/x/admin":                            "/admin",
		"/mcp":                                "/mcp",
		"/tools/gateway/mcp":                  "/tools/gateway/mcp",
		wellKnown + "/tools/gate/mcp":         wellKnown + "/mcp",
		wellKnown + "/tools/gate":             wellKnown,
		wellKnown + "/tools/gateway/mcp":      wellKnown + "/tools/gateway/mcp",
		"/tools/gate" + wellKnown + "/mcp":    wellKnown + "/mcp",
		wellKnown + "/tools/gate/mcp%2Fx":     wellKnown + "/mcp/x",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, sent, nil))
		if got := w.Body.String(); got != want || w.Code != http.StatusOK {
			t.Errorf("%s reaches %q with status %d, want %q", sent, got, w.Code, want)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/tools/gate", nil))
	if at := w.Header().Get("Location"); w.Code != http.StatusFound || at != "/tools/gate/" {
		t.Errorf("the path alone leads to %q, status %d", at, w.Code)
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(
		w,
		httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/tools/g%61te/mcp", nil),
	)
	if w.Code != http.StatusNotFound {
		t.Errorf("another spelling of the path: status %d, want 404", w.Code)
	}
}

// RFC 9728, section 3: the well-known part is between the host and the path of the resource.
func TestMetadataURL(t *testing.T) {
	got := mcphttp.MetadataURL("https://example.com/tools/gate/", "/mcp/x/files")
	want := "https://example.com/.well-known/oauth-protected-resource/tools/gate/mcp/x/files"
	if got != want {
		t.Errorf("the address is %s, want %s", got, want)
	}
}

// A request to the endpoint below an accepted base URL reaches the endpoint, and its metadata have
// an address.
func FuzzParseBaseURL(f *testing.F) {
	for _, s := range []string{
		"https://gw.example", "https://gw.example/a/b-c.d/", "http://127.0.0.1:8080/x",
		"https://gw.example/mcp", "https://gw.example/a//b", "https://[::1]/x",
		"https://gw.example/%2e", "http://gw.example/#",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := mcphttp.ParseBaseURL(s); err != nil {
			return
		}
		s = strings.TrimSuffix(s, "/")
		for _, at := range []string{s + "/mcp", mcphttp.MetadataURL(s, "/mcp")} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at, nil)
			if err != nil {
				t.Fatalf("%q: %v", at, err)
			}
			w := httptest.NewRecorder()
			mcphttp.Below(echo, s).ServeHTTP(w, r)
			if got := w.Body.String(); got != "/mcp" &&
				got != "/.well-known/oauth-protected-resource/mcp" {
				t.Errorf("%q reaches %q", at, got)
			}
		}
	})
}
