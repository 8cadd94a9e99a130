package mcphttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestBackendErrors(t *testing.T) {
	unknown := &mcp.Error{Code: -32602, Message: `unknown tool "x" <&>`, Data: json.RawMessage(`{"n":9007199254740993}`)}
	own := &mcp.Error{Code: 1234, Message: "of the upstream"}
	busy := &mcp.Error{Code: -32602, Message: "no tools left", Status: 503, RetryAfter: 1500 * time.Millisecond}
	inEachProtocol(t, func(t *testing.T, e protocol) {
		status := 200
		if e.isModern() {
			status = 400
		}
		h := newHandler(t, &backend{call: fails(unknown)}, nil)
		got := send(h, e.request(t, "tools/call", `"name":"x"`))
		got.wantError(t, status, -32602, "7")
		want := `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"unknown tool \"x\" <&>","data":{"n":9007199254740993}}}`
		same(t, "body", want, got.body)
		send(newHandler(t, &backend{call: fails(own)}, nil), e.request(t, "tools/call", `"name":"x"`)).wantError(t, 200, 1234, "7")

		got = send(newHandler(t, &backend{listErr: busy}, nil), e.request(t, "tools/list", ``))
		got.wantError(t, 503, -32602, "7")
		if r := got.header.Get("Retry-After"); r != "2" {
			t.Errorf("Retry-After is %q", r)
		}
	})
}

func fails(err error) func(context.Context, mcp.Request) (json.RawMessage, error) {
	return func(context.Context, mcp.Request) (json.RawMessage, error) { return nil, err }
}

func TestSelectionRefused(t *testing.T) {
	refused := &mcp.Error{Code: -32602, Message: "unknown toolset", Status: 400, Data: json.RawMessage(`{"unknown_toolsets":["zap"]}`)}
	for _, method := range []string{"tools/list", "tools/call", "initialize", "server/discover"} {
		e, params := legacy, `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"},"name":"x"`
		if method == "server/discover" {
			e, params = modern, ``
		}
		b := &backend{openErr: refused}
		got := send(newHandler(t, b, nil), e.request(t, method, params))
		got.wantError(t, 400, -32602, "7")
		if d := string(got.rpc(t).Error.Data); d != string(refused.Data) {
			t.Errorf("%s: data is %s", method, d)
		}
		if b.touched() {
			t.Errorf("%s reached the tools", method)
		}
	}
}

func TestInternalErrors(t *testing.T) {
	secret := errors.New("arn:aws:dynamodb:eu-central-1:123456789012:table/x")
	for name, b := range map[string]*backend{
		"open":         {openErr: secret},
		"list":         {listErr: secret},
		"panic":        {call: func(context.Context, mcp.Request) (json.RawMessage, error) { panic(secret) }},
		"broken":       {call: answers(`{"content":[`), tools: `{"tools":[`},
		"list as list": {call: answers(`[]`), tools: `[]`},
		"meta no map":  {call: answers(`{"_meta":5}`), tools: `{"_meta":5}`},
	} {
		t.Run(name, func(t *testing.T) {
			var log logbook
			h := newHandler(t, b, &mcphttp.Options{Log: log.logger()})
			r := modern.request(t, "tools/list", ``)
			if b.call != nil && b.tools == "" {
				r = modern.request(t, "tools/call", `"name":"x"`)
			}
			got := send(h, r)
			got.wantError(t, 200, -32603, "7")
			if m := got.rpc(t).Error.Message; m != "internal error" {
				t.Errorf("the caller reads %q", m)
			}
			l := log.String()
			if !strings.Contains(l, `"level":"ERROR"`) || !strings.Contains(l, `"error":"`) {
				t.Errorf("the log has %s", l)
			}
			if name == "panic" && !strings.Contains(l, "(*backend).CallTool") {
				t.Errorf("the log has no stack: %s", l)
			}
		})
	}
}

// A call ends after 25 s, or at the deadline of its request.
func TestLateCall(t *testing.T) {
	inEachProtocol(t, func(t *testing.T, e protocol) {
		for after, want := range map[time.Duration]string{time.Minute: "25 s", 3 * time.Second: "3 s"} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), after)
				defer cancel()
				b := &backend{call: func(ctx context.Context, _ mcp.Request) (json.RawMessage, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}}
				got := send(newHandler(t, b, nil), e.request(t, "tools/call", `"name":"x"`).WithContext(ctx)).wantResult(t)
				if !strings.Contains(got, `"isError":true`) ||
					!strings.Contains(got, "No answer after "+want) ||
					!strings.Contains(got, `"delivered":true`) {
					t.Errorf("want no answer after %s, got %s", want, got)
				}
			})
		}
	})
}

// In the stateless protocol, a disconnect cancels the call. In the handshake protocol, only a
// cancel message cancels a call, and the message needs a session.
func TestDisconnect(t *testing.T) {
	inEachProtocol(t, func(t *testing.T, e protocol) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			b := &backend{call: func(ctx context.Context, _ mcp.Request) (json.RawMessage, error) {
				cancel()
				synctest.Wait()
				if err := ctx.Err(); (err != nil) != e.isModern() {
					t.Errorf("the backend's context ended with %v", err)
				}
				return json.RawMessage(`{"content":[]}`), nil
			}}
			send(newHandler(t, b, nil), e.request(t, "tools/call", `"name":"x"`).WithContext(ctx))
		})
	})
}

func TestBodyLimit(t *testing.T) {
	o := &mcphttp.Options{MaxBody: 1000}
	inEachProtocol(t, func(t *testing.T, e protocol) {
		for _, chunked := range []bool{false, true} {
			b := &backend{}
			r := e.request(t, "tools/call", `"name":"x","arguments":{"a":"`+strings.Repeat("x", 1000)+`"}`)
			if chunked {
				r.ContentLength = -1
			}
			send(newHandler(t, b, o), r).wantError(t, 413, 413, "")
			if b.touched() {
				t.Error("it reached the backend")
			}
		}
	})
	// The default is 4 MiB, to the byte.
	b := &backend{}
	frame := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":""}}}`
	fill := strings.Repeat("y", 4<<20-len(frame))
	full := strings.Replace(frame, `"a":"`, `"a":"`+fill, 1)
	b.call = answers(`{"content":[]}`)
	send(newHandler(t, b, nil), post(t, full)).wantResult(t)
	send(newHandler(t, b, nil), post(t, strings.Replace(full, "y", "yy", 1))).wantError(t, 413, 413, "")
}

func TestResultLimit(t *testing.T) {
	text := func(n int, s string) string {
		return `{"content":[{"type":"text","text":"` + strings.Repeat(s, n/len(s)) + `"}]}`
	}
	for name, tt := range map[string]struct {
		result string
		over   string // the exceeded limit; "": the result fits
	}{
		"short":                     {text(1000, "x"), ""},
		"just under the limit":      {text(5<<20-2000, "x"), ""},
		"over the limit":            {text(5<<20, "x"), "5 MiB"},
		"doubled by quoting":        {text(4<<20, `\"`), "5.98 MiB"},
		"doubled and short enough":  {text(2<<20, `\"`), ""},
		"control characters within": {text(4<<20, "\u2028"), "5.98 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, e := range []protocol{legacy, modern} {
				got := send(newHandler(t, &backend{call: answers(tt.result)}, nil), e.request(t, "tools/call", `"name":"x"`))
				result := got.wantResult(t)
				if isError := strings.Contains(result, `"isError":true`); isError != (tt.over != "") {
					t.Fatalf("%s: isError = %v", e.name, isError)
				}
				want := "The tool ran, but its result is too large to pass on (over " + tt.over + "). Ask for less; do not repeat a write."
				if tt.over != "" && (!strings.Contains(result, want) || !strings.Contains(result, `"delivered":true`)) {
					t.Errorf("%s: got %s", e.name, result)
				}
			}
		})
	}
	list := &backend{tools: text(6<<20, "x")}
	send(newHandler(t, list, nil), modern.request(t, "tools/list", ``)).wantError(t, 200, -32603, "7")
}

func TestChallenge(t *testing.T) {
	cause := errors.New("token eyJhbGciOi expired")
	for name, tt := range map[string]struct {
		err       error
		status    int
		challenge string
	}{
		"none":    {&identity.Error{Kind: identity.Missing}, 401, `Bearer resource_metadata="https://gw.example/.well-known/oauth-protected-resource/mcp"`},
		"scopes":  {&identity.Error{Kind: identity.Missing, Scopes: []string{"a", "b"}}, 401, `Bearer scope="a b", resource_metadata="https://gw.example/.well-known/oauth-protected-resource/mcp"`},
		"invalid": {&identity.Error{Err: cause}, 401, `Bearer error="invalid_token", resource_metadata="https://gw.example/.well-known/oauth-protected-resource/mcp"`},
		"scope": {&identity.Error{Kind: identity.Scope, Scopes: []string{`x"y\`}}, 403,
			`Bearer error="insufficient_scope", scope="xy", resource_metadata="https://gw.example/.well-known/oauth-protected-resource/mcp"`},
		"other": {cause, 401, `Bearer error="invalid_token", resource_metadata="https://gw.example/.well-known/oauth-protected-resource/mcp"`},
		"down":  {&identity.Error{Kind: identity.Unavailable, Err: cause}, 503, ``},
		"often": {&identity.Error{Kind: identity.Throttled, RetryAfter: 5 * time.Second / 2}, 429, ``},
	} {
		t.Run(name, func(t *testing.T) {
			inEachProtocol(t, func(t *testing.T, e protocol) {
				var log logbook
				b := &backend{}
				h := newAuthHandler(t, b, denies(tt.err), &mcphttp.Options{BaseURL: "https://gw.example/", Resource: &mcphttp.Resource{}, Log: log.logger()})
				r := e.request(t, "tools/call", `"name":"x"`)
				r.Host = "evil.example"
				got := send(h, r)
				got.wantError(t, tt.status, tt.status, "7")
				same(t, "challenge", tt.challenge, got.header.Get("WWW-Authenticate"))
				if strings.Contains(got.body, "eyJ") {
					t.Errorf("the caller reads the cause: %s", got.body)
				}
				if len(b.callers) > 0 {
					t.Error("it reached the backend")
				}
				if after := got.header.Get("Retry-After"); name == "often" && after != "3" {
					t.Errorf("Retry-After = %q", after)
				}
				if refused, ok := errors.AsType[*identity.Error](tt.err); (!ok || refused.Err != nil) && !strings.Contains(log.String(), "expired") {
					t.Errorf("the log has no cause: %s", log.String())
				}
				// The handler authenticates the sender before it checks the message.
				send(h, post(t, `nonsense`)).wantError(t, tt.status, tt.status, "")
				note := post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				send(h, note).wantError(t, tt.status, tt.status, "")
			})
		})
	}
	h := newAuthHandler(t, &backend{}, denies(&identity.Error{Kind: identity.Missing}), nil)
	if got := send(h, modern.request(t, "tools/list", ``)).header.Get("WWW-Authenticate"); got != "Bearer" {
		t.Errorf("without metadata the challenge is %q", got)
	}
}

func TestCallScope(t *testing.T) {
	refused := &mcp.Error{Code: 403, Status: 403, Message: "no", Err: &identity.Error{Kind: identity.Scope, Scopes: []string{"destructive"}}}
	inEachProtocol(t, func(t *testing.T, e protocol) {
		h := newHandler(t, &backend{call: fails(refused)}, &mcphttp.Options{BaseURL: "https://gw.example", Resource: &mcphttp.Resource{ScopePrefix: "gate/"}})
		got := send(h, e.request(t, "tools/call", `"name":"x"`))
		got.wantError(t, 403, 403, "7")
		want := `Bearer error="insufficient_scope", scope="gate/destructive", resource_metadata="https://gw.example/.well-known/oauth-protected-resource/mcp"`
		if c := got.header.Get("WWW-Authenticate"); c != want {
			t.Errorf("challenge is %q, want %q", c, want)
		}
	})
}

func TestResourceMetadata(t *testing.T) {
	o := &mcphttp.Options{Name: "gate", BaseURL: "https://gw.example", Resource: &mcphttp.Resource{
		AuthorizationServers: []string{"https://as.example"}, Scopes: []string{"tools:read"},
	}}
	get := func(o *mcphttp.Options, method, path string) reply {
		r := httptest.NewRequestWithContext(t.Context(), method, "/.well-known/oauth-protected-resource"+path, nil)
		r.Host = "evil.example"
		r.Header.Set("Origin", "https://any.example")
		return send(newHandler(t, &backend{}, o), r)
	}
	for _, path := range []string{"", "/mcp", "/mcp/readonly", "/mcp/x/files"} {
		got := get(o, "GET", path)
		want := `{"resource":"https://gw.example` + path + `","authorization_servers":["https://as.example"],"scopes_supported":["tools:read"],"bearer_methods_supported":["header"],"resource_name":"gate"}`
		if d := cmp.Diff(want, got.body); d != "" || got.status != 200 {
			t.Errorf("%q: status %d (-want +got):\n%s", path, got.status, d)
		}
		if c := got.header.Get("Access-Control-Allow-Origin"); c != "*" {
			t.Errorf("%q: CORS %q", path, c)
		}
	}
	get(o, "GET", "/other").wantError(t, 404, 404, "")
	get(o, "GET", "/").wantError(t, 404, 404, "")
	get(o, "POST", "/mcp").wantError(t, 405, 405, "")
	get(nil, "GET", "/mcp").wantError(t, 404, 404, "")
	get(&mcphttp.Options{Resource: o.Resource}, "GET", "/mcp").wantError(t, 404, 404, "")
	if p := get(o, "OPTIONS", "/mcp"); p.status != 204 {
		t.Errorf("preflight: %d", p.status)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, o := range []mcphttp.Options{
		{BaseURL: "gw.example"},
		{BaseURL: "ftp://gw.example"}, {BaseURL: "https://u:p@gw.example"}, {BaseURL: "::"},
		{BaseURL: "https://gw.example/mcp"}, {BaseURL: "https://gw.example/gate/admin"},
		{BaseURL: "https://gw.example/../gate"},
		{BaseURL: "https://gw.example//gate"}, {BaseURL: "https://gw.example/g%61te"},
		{BaseURL: "https://gw.example/a b"},
		{BaseURL: "https://gw.example/gate#x"}, {BaseURL: "https://gw.example/.well-known"},
		{AllowOrigins: []string{"app.example"}}, {AllowOrigins: []string{"https://app.example/"}}, {AllowOrigins: []string{""}},
	} {
		if _, err := mcphttp.New(&backend{}, identity.None{}, &o); err == nil {
			t.Errorf("New accepts %+v", o)
		}
	}
	if _, err := mcphttp.New(nil, identity.None{}, nil); err == nil {
		t.Error("New accepts a nil backend")
	}
	if _, err := mcphttp.New(&backend{}, nil, nil); err == nil {
		t.Error("New accepts a nil authenticator")
	}
}

// A page that rebound its own name to this machine sends that name as Host.
func TestReboundHost(t *testing.T) {
	for _, tt := range []struct {
		base, host string
		ok         bool
	}{
		{"", "127.0.0.1:1", true}, {"", "localhost:1", true}, {"", "evil.example", false},
		{"http://127.0.0.1:8080", "evil.example", false}, {"http://localhost:8080", "evil.example", false},
		{"https://gw.example", "gw.example", true},
	} {
		srv := httptest.NewServer(newHandler(t, &backend{}, &mcphttp.Options{BaseURL: tt.base}))
		r := legacy.request(t, "tools/list", ``)
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/mcp", r.Body)
		require.OK(t, err)
		q.Header, q.Host = r.Header, tt.host
		res, err := srv.Client().Do(q)
		require.OK(t, err)
		var body bytes.Buffer
		_, _ = body.ReadFrom(res.Body)
		res.Body.Close()
		srv.Close()
		got := reply{res.StatusCode, res.Header, body.String()}
		if tt.ok {
			got.wantResult(t)
		} else {
			got.wantError(t, 403, 403, "7")
		}
	}
}

// Scanners that probe paths and methods cause no log lines.
func TestLogProbes(t *testing.T) {
	var log logbook
	h := newHandler(t, &backend{}, &mcphttp.Options{Log: log.logger()})
	for _, probe := range []struct{ method, path string }{{"GET", "/mcp"}, {"GET", "/wp-login.php"}, {"POST", "/mcp/x/a/b"}, {"DELETE", "/mcp"}, {"HEAD", "/"}} {
		send(h, httptest.NewRequestWithContext(t.Context(), probe.method, "https://gw.example"+probe.path, nil))
	}
	if log.String() != "" {
		t.Errorf("log:\n%s", log.String())
	}
	send(h, modern.request(t, "no/such", ``))
	if !strings.Contains(log.String(), `"method":"no/such"`) {
		t.Errorf("an agent's wrong method is not logged: %s", log.String())
	}
}

func TestLogLimits(t *testing.T) {
	long := strings.Repeat("m", 100_000)
	for name, body := range map[string]string{
		"method":                 `{"jsonrpc":"2.0","id":1,"method":"` + long + `"}`,
		"tool":                   `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + long + `"}}`,
		"error of an upstream's": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`,
	} {
		var log logbook
		h := newHandler(t, &backend{call: fails(&mcp.Error{Code: -32000, Message: long})}, &mcphttp.Options{
			Log: log.logger(), Metrics: observe.NewMeter("portcullis", "mcp", nil),
		})
		send(h, post(t, body))
		if n := len(log.String()); n == 0 || n > 1500 || !strings.Contains(log.String(), `"Requests":1`) {
			t.Errorf("%s: the log has %d bytes, want at most 1500: %s", name, n, log.String())
		}
	}
}
