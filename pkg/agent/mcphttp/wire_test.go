package mcphttp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
)

func TestEndpoints(t *testing.T) {
	for path, want := range map[string]string{
		"/mcp":          "",
		"/mcp/readonly": "/readonly",
		"/mcp/x/files":  "/x/files",
		"/mcp/x/a b":    "/x/a b",
	} {
		inEachProtocol(t, func(t *testing.T, e protocol) {
			b := &backend{}
			r := e.request(t, "tools/list", ``)
			r.URL.Path = path
			send(newHandler(t, b, nil), r).wantResult(t)
			if got := b.callers[0].Path; got != want {
				t.Errorf("%s: toolset = %q, want %q", path, got, want)
			}
		})
	}
}

func TestOtherPaths(t *testing.T) {
	for _, path := range []string{"/", "/mcp/", "/mcpx", "/mcp/x", "/mcp/x/", "/mcp/x/a/b", "/mcp/readonly/x", "/MCP", "/.well-known/other"} {
		b := &backend{}
		r := modern.request(t, "tools/list", ``)
		r.URL.Path = path
		send(newHandler(t, b, nil), r).wantError(t, 404, 404, "")
		if b.touched() {
			t.Errorf("%s reached the backend", path)
		}
	}
}

func TestOrigin(t *testing.T) {
	o := &mcphttp.Options{AllowOrigins: []string{"https://app.example"}, BaseURL: "https://gw.example"}
	for _, tt := range []struct {
		origin string
		ok     bool
	}{
		{"", true},
		{"https://app.example", true},
		{"https://APP.example", true},
		{"https://gw.example", true},
		{"http://app.example", false},
		{"https://app.example.evil.example", false},
		{"https://app.example:8443", false},
		{"null", false},
	} {
		inEachProtocol(t, func(t *testing.T, e protocol) {
			b := &backend{}
			r := e.request(t, "tools/list", ``)
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
			got := send(newHandler(t, b, o), r)
			if tt.ok {
				got.wantResult(t)
			} else {
				got.wantError(t, 403, 403, "7")
			}
			if b.touched() != tt.ok {
				t.Errorf("origin %q: backend called = %v", tt.origin, b.touched())
			}
			cors := got.header.Get("Access-Control-Allow-Origin")
			if want := tt.origin; (cors != "") != (tt.ok && want != "") || cors != "" && cors != want {
				t.Errorf("origin %q: Access-Control-Allow-Origin = %q", tt.origin, cors)
			}
		})
	}
	two := legacy.request(t, "tools/list", ``)
	two.Header["Origin"] = []string{"https://app.example", "https://evil.example"}
	send(newHandler(t, &backend{}, o), two).wantError(t, 403, 403, "7")
	unreadable := post(t, `nonsense`)
	unreadable.Header.Set("Origin", "https://evil.example")
	send(newHandler(t, &backend{}, o), unreadable).wantError(t, 403, 403, "")
}

func TestOriginExposedHeaders(t *testing.T) {
	r := modern.request(t, "tools/list", ``)
	r.Header.Set("Origin", "https://any.example")
	got := send(newHandler(t, &backend{}, &mcphttp.Options{AllowOrigins: []string{"*"}}), r)
	if e := got.header.Get("Access-Control-Expose-Headers"); !strings.Contains(e, "WWW-Authenticate") {
		t.Errorf("exposed headers are %q", e)
	}
	if v := got.header.Values("Vary"); !strings.Contains(strings.Join(v, ","), "Origin") {
		t.Errorf("vary is %q", v)
	}
}

func TestPreflight(t *testing.T) {
	h := newHandler(t, &backend{}, &mcphttp.Options{AllowOrigins: []string{"https://app.example"}})
	ask := func(origin, headers string) reply {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodOptions, "/mcp", nil)
		r.Header.Set("Access-Control-Request-Method", "POST")
		r.Header.Set("Access-Control-Request-Headers", headers)
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		return send(h, r)
	}
	got := ask("https://app.example", "mcp-param-region, x-mcp-future, x-other, mcp-bad\x01name")
	if got.status != http.StatusNoContent || got.body != "" {
		t.Errorf("got status %d and %q", got.status, got.body)
	}
	allowed := map[string]bool{}
	for name := range strings.SplitSeq(got.header.Get("Access-Control-Allow-Headers"), ",") {
		allowed[strings.ToLower(strings.TrimSpace(name))] = true
	}
	for _, name := range []string{
		"authorization", "content-type", "accept", "traceparent", "prefer",
		"mcp-protocol-version", "mcp-session-id", "mcp-method", "mcp-name", "mcp-param-region",
		"x-mcp-toolsets", "x-mcp-tools", "x-mcp-enabled-tools", "x-mcp-exclude-tools", "x-mcp-disabled-tools", "x-mcp-readonly", "x-mcp-future",
	} {
		if !allowed[name] {
			t.Errorf("header %s is not allowed", name)
		}
	}
	if allowed["x-other"] || allowed["mcp-bad\x01name"] {
		t.Errorf("allowed headers are %v", allowed)
	}
	if m := got.header.Get("Access-Control-Allow-Methods"); !strings.Contains(m, "POST") {
		t.Errorf("allowed methods are %q", m)
	}

	ask("https://evil.example", "").wantError(t, 403, 403, "")
	if plain := ask("", ""); plain.status != http.StatusNoContent || plain.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("without an origin: %+v", plain)
	}
}

func TestOtherHTTPMethods(t *testing.T) {
	for _, method := range []string{"GET", "DELETE", "PUT", "PATCH", "HEAD"} {
		for _, path := range []string{"/mcp", "/mcp/readonly", "/mcp/x/files"} {
			r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
			r.Header.Set("Accept", "text/event-stream")
			got := send(newHandler(t, &backend{}, nil), r)
			got.wantError(t, 405, 405, "")
			if a := got.header.Get("Allow"); a != "POST" {
				t.Errorf("%s %s: Allow is %q", method, path, a)
			}
		}
	}
}

func TestHeadersGivenTwice(t *testing.T) {
	for _, name := range []string{"Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"} {
		b := &backend{}
		r := modern.request(t, "tools/call", `"name":"echo"`)
		r.Header[name] = append([]string{r.Header.Get(name)}, "other")
		send(newHandler(t, b, nil), r).wantError(t, 400, -32020, "7")
		if b.touched() {
			t.Errorf("two %s headers reached the backend", name)
		}
		r = modern.request(t, "tools/call", `"name":"echo"`)
		r.Header[name] = append([]string{r.Header.Get(name)}, r.Header.Get(name))
		send(newHandler(t, b, nil), r).wantResult(t)
	}
}

func TestUnsupportedVersions(t *testing.T) {
	for _, v := range []string{"2024-11-05", "1999-01-01", "2030-01-01", "x"} {
		r := post(t, `{"jsonrpc":"2.0","id":"a","method":"tools/list"}`)
		r.Header.Set("MCP-Protocol-Version", v)
		got := send(newHandler(t, &backend{}, nil), r)
		got.wantError(t, 400, -32022, `"a"`)
		want := `{"supported":["2026-07-28","2025-11-25","2025-06-18"],"requested":"` + v + `"}`
		same(t, "data", want, string(got.rpc(t).Error.Data))
	}
}

func TestAccept(t *testing.T) {
	for accept, ok := range map[string]bool{
		"application/json":                       true,
		"*/*":                                    true,
		"application/json, text/event-stream":    true,
		"text/event-stream, APPLICATION/JSON":    true,
		"-":                                      true,
		"text/event-stream":                      false,
		"application/json;q=0":                   false,
		"*/*, application/json;q=0":              false,
		"application/json, */*;q=0":              true,
		"*/*;q=0, application/*;q=0.001":         true,
		"application/json;q=0.0;x=1":             false,
		"application/json;q=0, application/json": true,
	} {
		inEachProtocol(t, func(t *testing.T, e protocol) {
			r := e.request(t, "tools/list", ``)
			r.Header.Set("Accept", accept)
			if accept == "-" {
				r.Header.Del("Accept")
			}
			got := send(newHandler(t, &backend{}, nil), r)
			if ok {
				got.wantResult(t)
			} else {
				got.wantError(t, 406, 406, "")
			}
		})
	}
}

func TestContentType(t *testing.T) {
	for _, ct := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json-rpc", "application/jsonx", "text/json", "application/json, text/plain"} {
		inEachProtocol(t, func(t *testing.T, e protocol) {
			b := &backend{}
			r := e.request(t, "tools/call", `"name":"echo"`)
			r.Header.Set("Content-Type", ct)
			send(newHandler(t, b, nil), r).wantError(t, 415, 415, "")
			if b.touched() {
				t.Errorf("content type %q reached the backend", ct)
			}
		})
	}
	for _, ct := range []string{"application/json; charset=utf-8", "Application/JSON"} {
		r := modern.request(t, "tools/list", ``)
		r.Header.Set("Content-Type", ct)
		send(newHandler(t, &backend{}, nil), r).wantResult(t)
	}
	zipped := modern.request(t, "tools/list", ``)
	zipped.Header.Set("Content-Encoding", "gzip")
	send(newHandler(t, &backend{}, nil), zipped).wantError(t, 415, 415, "")
}

func TestCacheScope(t *testing.T) {
	for _, given := range []string{`{"tools":[]}`, `{"tools":[],"cacheScope":"public"}`, `{"cacheScope":"public","tools":[],"cacheScope":"public"}`} {
		inEachProtocol(t, func(t *testing.T, e protocol) {
			h := newHandler(t, &backend{tools: given}, nil)
			list := send(h, e.request(t, "tools/list", ``)).wantResult(t)
			if strings.Count(list, `"cacheScope"`) != 1 || !strings.Contains(list, `"cacheScope":"private"`) || !strings.Contains(list, `"ttlMs":0`) {
				t.Errorf("%s became %s", given, list)
			}
		})
	}
	discover := send(newHandler(t, &backend{}, nil), modern.request(t, "server/discover", ``)).wantResult(t)
	if !strings.Contains(discover, `"cacheScope":"private"`) {
		t.Errorf("server/discover is %s", discover)
	}
}
