package apigw_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/aws/apigw"
)

// A payload makes events and reads answers in one of API Gateway's two payload formats.
type payload struct {
	name string
	make func(req) []byte
	read func(testing.TB, []byte) res
}

// A req is a test's request. A res is its answer.
type req struct {
	method, path, body string
	isBase64           bool
	header             map[string][]string
	cookies            []string
	stage, domain      string
}

type res struct {
	status   int
	header   http.Header
	body     string
	isBase64 bool
}

var payloads = []payload{
	{"2.0", makeV2, readV2},
	{"1.0", makeV1, readV1},
}

func makeV2(r req) []byte {
	h := map[string]string{"host": "gw.example"}
	for k, v := range r.header {
		h[strings.ToLower(k)] = strings.Join(v, ",")
	}
	if r.stage == "" {
		r.stage = "$default"
	}
	return marshal(events.APIGatewayV2HTTPRequest{
		Version: "2.0", RawPath: r.path, Headers: h, Cookies: r.cookies, Body: r.body, IsBase64Encoded: r.isBase64,
		RequestContext: events.APIGatewayV2HTTPRequestContext{
			Stage: r.stage, DomainName: r.domain,
			HTTP: events.APIGatewayV2HTTPRequestContextHTTPDescription{Method: r.method, Path: r.path, SourceIP: "203.0.113.7"},
		},
	})
}

func makeV1(r req) []byte {
	h := map[string][]string{"Host": {"gw.example"}}
	one := map[string]string{"Host": "gw.example"}
	for k, v := range r.header {
		h[k], one[k] = v, v[len(v)-1]
	}
	if len(r.cookies) > 0 {
		h["Cookie"] = []string{strings.Join(r.cookies, "; ")}
	}
	return marshal(events.APIGatewayProxyRequest{
		HTTPMethod: r.method, Path: r.path, Headers: one, MultiValueHeaders: h, Body: r.body, IsBase64Encoded: r.isBase64,
		RequestContext: events.APIGatewayProxyRequestContext{
			Stage: r.stage, DomainName: r.domain, Identity: events.APIGatewayRequestIdentity{SourceIP: "203.0.113.7"},
		},
	})
}

func readV2(t testing.TB, b []byte) res {
	t.Helper()
	var e events.APIGatewayV2HTTPResponse
	if err := json.Unmarshal(b, &e); err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	for k, v := range e.Headers {
		h.Set(k, v)
	}
	for _, c := range e.Cookies {
		h.Add("Set-Cookie", c)
	}
	return res{e.StatusCode, h, e.Body, e.IsBase64Encoded}
}

func readV1(t testing.TB, b []byte) res {
	t.Helper()
	var e events.APIGatewayProxyResponse
	if err := json.Unmarshal(b, &e); err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	for k, v := range e.MultiValueHeaders {
		h[http.CanonicalHeaderKey(k)] = v
	}
	return res{e.StatusCode, h, e.Body, e.IsBase64Encoded}
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// inEach runs f once for each payload format. send invokes a handler.
func inEach(t *testing.T, f func(t *testing.T, send func(http.Handler, *slog.Logger, req) res)) {
	t.Helper()
	for _, p := range payloads {
		t.Run(p.name, func(t *testing.T) {
			f(t, func(h http.Handler, log *slog.Logger, r req) res {
				t.Helper()
				out, err := apigw.New(h, log).Invoke(t.Context(), p.make(r))
				if err != nil {
					t.Fatal(err)
				}
				return p.read(t, out)
			})
		})
	}
}

// keep returns a handler that keeps the request and its body.
func keep(r **http.Request, body *string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		b, err := io.ReadAll(in.Body)
		if err != nil {
			panic(err)
		}
		*r, *body = in, string(b)
		w.WriteHeader(http.StatusNoContent)
	})
}

func TestInvoke(t *testing.T) {
	inEach(t, func(t *testing.T, send func(http.Handler, *slog.Logger, req) res) {
		var got *http.Request
		var body string
		out := send(keep(&got, &body), nil, req{
			method: "POST", path: "/mcp/x/files", body: `{"a":"é"}`, cookies: []string{"a=1", "b=2"},
			header: map[string][]string{"Mcp-Name": {"res://a,b"}, "X-MCP-Toolsets": {"files, folders"}, "Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"}},
		})
		if out.status != http.StatusNoContent || out.body != "" {
			t.Errorf("answer is %+v", out)
		}
		want := http.Header{
			"Mcp-Name": {"res://a,b"}, "X-Mcp-Toolsets": {"files, folders"}, "Accept": {"application/json, text/event-stream"},
			"Content-Type": {"application/json"}, "Cookie": {"a=1; b=2"},
		}
		if d := cmp.Diff(want, got.Header); d != "" {
			t.Errorf("headers (-want +got):\n%s", d)
		}
		if body != `{"a":"é"}` || got.Method != http.MethodPost || got.URL.Path != "/mcp/x/files" || got.Host != "gw.example" || got.RemoteAddr != "203.0.113.7" {
			t.Errorf("%s %s on %s from %s with %q", got.Method, got.URL, got.Host, got.RemoteAddr, body)
		}
		if c, err := got.Cookie("b"); err != nil || c.Value != "2" {
			t.Errorf("cookie b is %v, %v", c, err)
		}
	})
}

func TestInvokeRepeatedHeaders(t *testing.T) {
	var got *http.Request
	var body string
	h := keep(&got, &body)
	in := makeV1(req{method: "POST", path: "/mcp", header: map[string][]string{"Origin": {"https://a.example", "https://b.example"}}})
	if _, err := apigw.New(h, nil).Invoke(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"https://a.example", "https://b.example"}, got.Header.Values("Origin")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// Some senders set only Headers, which has one value for each name.
	in = marshal(events.APIGatewayProxyRequest{HTTPMethod: "POST", Path: "/mcp", Headers: map[string]string{"Mcp-Name": "a,b"}, MultiValueHeaders: map[string][]string{}})
	if _, err := apigw.New(h, nil).Invoke(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if n := got.Header.Get("Mcp-Name"); n != "a,b" {
		t.Errorf("Mcp-Name is %q", n)
	}
}

func TestInvokeBase64Body(t *testing.T) {
	inEach(t, func(t *testing.T, send func(http.Handler, *slog.Logger, req) res) {
		var got *http.Request
		var body string
		raw := "{\"a\":\"\xff\x00\"}"
		send(keep(&got, &body), nil, req{method: "POST", path: "/mcp", body: base64.StdEncoding.EncodeToString([]byte(raw)), isBase64: true})
		if body != raw {
			t.Errorf("body is %q", body)
		}
		got = nil
		out := send(keep(&got, &body), nil, req{method: "POST", path: "/mcp", body: "***", isBase64: true})
		wantRefusal(t, out, 400)
		if got != nil {
			t.Error("the request reached the handler")
		}
	})
}

// wantRefusal checks that the answer is a JSON-RPC error.
func wantRefusal(t *testing.T, r res, status int) {
	t.Helper()
	var body struct {
		JSONRPC string
		ID      *int
		Error   struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal([]byte(r.body), &body); err != nil {
		t.Fatalf("body %q: %v", r.body, err)
	}
	if r.status != status || body.JSONRPC != "2.0" || body.Error.Code != status || body.Error.Message == "" || r.header.Get("Content-Type") != "application/json" {
		t.Errorf("got %+v, want a JSON-RPC error with status %d", r, status)
	}
}

func TestInvokeLongBody(t *testing.T) {
	const most = 4 << 20
	inEach(t, func(t *testing.T, send func(http.Handler, *slog.Logger, req) res) {
		for _, tt := range []struct {
			body     string
			isBase64 bool
			status   int
		}{
			{strings.Repeat("x", most), false, 204},
			{strings.Repeat("x", most+1), false, 413},
			{base64.StdEncoding.EncodeToString(make([]byte, most)), true, 204},
			{base64.StdEncoding.EncodeToString(make([]byte, most+3)), true, 413},
			// too long, so nothing decodes it
			{strings.Repeat("*", base64.StdEncoding.EncodedLen(most)+1), true, 413},
		} {
			var got *http.Request
			var body string
			out := send(keep(&got, &body), nil, req{method: "POST", path: "/mcp", body: tt.body, isBase64: tt.isBase64})
			if out.status != tt.status || (got != nil) != (tt.status == 204) {
				t.Errorf("%d bytes, base64 %v: status %d, handler ran %v", len(tt.body), tt.isBase64, out.status, got != nil)
			}
			if tt.status == 413 {
				wantRefusal(t, out, 413)
			}
		}
	})
}

func TestInvokePanic(t *testing.T) {
	inEach(t, func(t *testing.T, send func(http.Handler, *slog.Logger, req) res) {
		var log bytes.Buffer
		h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Secret", "1")
			fmt.Fprint(w, "half an ans")
			panic("arn:aws:s3:::bucket")
		})
		out := send(h, slog.New(slog.NewJSONHandler(&log, nil)), req{method: "POST", path: "/mcp"})
		wantRefusal(t, out, 500)
		if strings.Contains(out.body, "half") || strings.Contains(out.body, "arn:") || out.header.Get("Secret") != "" {
			t.Errorf("the answer is %+v", out)
		}
		if l := log.String(); !strings.Contains(l, "arn:aws:s3:::bucket") || !strings.Contains(l, "apigw_test.go") || !strings.Contains(l, `"level":"ERROR"`) {
			t.Errorf("the log is %s", l)
		}
	})
}

func TestInvokeSilentHandler(t *testing.T) {
	inEach(t, func(t *testing.T, send func(http.Handler, *slog.Logger, req) res) {
		out := send(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), nil, req{method: "POST", path: "/mcp"})
		if out.status != 200 || out.body != "" {
			t.Errorf("got %+v", out)
		}
	})
}

func TestAnswerBase64(t *testing.T) {
	inEach(t, func(t *testing.T, send func(http.Handler, *slog.Logger, req) res) {
		for _, tt := range []struct {
			body     string
			isBase64 bool
		}{
			{`{"a":"é <&> \u2028"}`, false}, {"\xff\xfe", true},
		} {
			h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Header()["Set-Cookie"] = []string{"a=1", "b=2"}
				w.Header().Set("WWW-Authenticate", `Bearer error="x", scope="y"`)
				w.WriteHeader(http.StatusTeapot)
				_, _ = io.WriteString(w, tt.body)
			})
			out := send(h, nil, req{method: "GET", path: "/"})
			body := out.body
			if out.isBase64 {
				b, err := base64.StdEncoding.DecodeString(body)
				if err != nil {
					t.Fatal(err)
				}
				body = string(b)
			}
			if out.status != http.StatusTeapot || body != tt.body || out.isBase64 != tt.isBase64 {
				t.Errorf("got %+v", out)
			}
			if d := cmp.Diff([]string{"a=1", "b=2"}, out.header.Values("Set-Cookie")); d != "" {
				t.Errorf("cookies (-want +got):\n%s", d)
			}
			if w := out.header.Get("WWW-Authenticate"); w != `Bearer error="x", scope="y"` {
				t.Errorf("challenge is %q", w)
			}
		}
	})
}

func TestAnswerTooLarge(t *testing.T) {
	inEach(t, func(t *testing.T, send func(http.Handler, *slog.Logger, req) res) {
		var log bytes.Buffer
		answer := func(n int) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, strings.Repeat(`"`, n)) // each quote has two bytes as JSON
			})
		}
		o := slog.New(slog.NewJSONHandler(&log, nil))
		if out := send(answer(3<<20-1000), o, req{method: "POST", path: "/mcp"}); out.status != 200 {
			t.Errorf("status %d", out.status)
		}
		wantRefusal(t, send(answer(3<<20), o, req{method: "POST", path: "/mcp"}), 500)
		if !strings.Contains(log.String(), "over Lambda's limit") {
			t.Errorf("the log is %s", log.String())
		}
	})
}

func TestPathStage(t *testing.T) {
	const api, custom = "a1b2.execute-api.eu-central-1.amazonaws.com", "tools.example.com"
	for _, tt := range []struct {
		format, stage, domain, path, want string
	}{
		{"2.0", "$default", api, "/mcp", "/mcp"},
		{"2.0", "prod", api, "/prod/mcp/readonly", "/mcp/readonly"},
		{"2.0", "prod", api, "/prod", "/"},
		{"2.0", "prod", api, "/production/mcp", "/production/mcp"},
		{"2.0", "mcp", api, "/mcp/mcp", "/mcp"},
		{"2.0", "mcp", custom, "/mcp", "/mcp"},
		{"1.0", "prod", api, "/mcp", "/mcp"},
		{"1.0", "mcp", api, "/mcp/x/files", "/mcp/x/files"},
	} {
		var got *http.Request
		var body string
		a := apigw.New(keep(&got, &body), nil)
		r := req{method: "POST", path: tt.path, stage: tt.stage, domain: tt.domain}
		in := makeV2(r)
		if tt.format == "1.0" {
			in = makeV1(r)
		}
		if _, err := a.Invoke(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if got.URL.Path != tt.want {
			t.Errorf("%+v: the handler sees %q", tt, got.URL.Path)
		}
	}
}

func TestPathOdd(t *testing.T) {
	inEach(t, func(t *testing.T, send func(http.Handler, *slog.Logger, req) res) {
		for path, want := range map[string]string{
			"/mcp/x/a b": "/mcp/x/a b", "/mcp/x/100%": "/mcp/x/100%", "/mcp/x/a?b#c": "/mcp/x/a?b#c", "/mcp/x/%61": "/mcp/x/a",
			"": "/", "mcp": "/mcp", "//mcp": "//mcp", "/mcp/x/é": "/mcp/x/é", "/mcp/x/%zz": "/mcp/x/%zz",
		} {
			var got *http.Request
			var body string
			out := send(keep(&got, &body), nil, req{method: "POST", path: path})
			if out.status != 204 || got == nil || got.URL.Path != want {
				t.Errorf("path %q: status %d, the handler sees %v", path, out.status, got)
			}
		}
		wantRefusal(t, send(http.NotFoundHandler(), nil, req{method: "NO METHOD", path: "/mcp"}), 400)
	})
}

func TestQuery(t *testing.T) {
	var got *http.Request
	var body string
	a := apigw.New(keep(&got, &body), nil)
	for name, in := range map[string][]byte{
		"2.0": marshal(events.APIGatewayV2HTTPRequest{Version: "2.0", RawPath: "/admin", RawQueryString: "a=1&a=2&b=x%20y",
			RequestContext: events.APIGatewayV2HTTPRequestContext{HTTP: events.APIGatewayV2HTTPRequestContextHTTPDescription{Method: "GET"}}}),
		"1.0": marshal(events.APIGatewayProxyRequest{HTTPMethod: "GET", Path: "/admin", MultiValueQueryStringParameters: map[string][]string{"a": {"1", "2"}, "b": {"x y"}}}),
	} {
		if _, err := a.Invoke(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(url.Values{"a": {"1", "2"}, "b": {"x y"}}, got.URL.Query()); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestInvokeNoRequest(t *testing.T) {
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
	for _, in := range []string{``, `null`, `[]`, `{}`, `{"version":"2.0"}`, `{"version":"3.0","httpMethod":"GET"}`, `{"source":"aws.events"}`, `{"Records":[]}`, `{"httpMethod":5}`, `{"httpMethod":"GET","body":5}`} {
		if out, err := apigw.New(h, nil).Invoke(t.Context(), []byte(in)); err == nil {
			t.Errorf("the answer to %s is %s", in, out)
		}
	}
}

func TestRequestID(t *testing.T) {
	var id string
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { id = apigw.RequestID(r.Context()) })
	ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "req-7"})
	for _, p := range payloads {
		id = ""
		if _, err := apigw.New(h, nil).Invoke(ctx, p.make(req{method: "GET", path: "/"})); err != nil {
			t.Fatal(err)
		}
		if id != "req-7" {
			t.Errorf("payload %s: request id %q", p.name, id)
		}
	}
	if id := apigw.RequestID(context.Background()); id != "" {
		t.Errorf("without Lambda the id is %q", id)
	}
}

func TestSigner(t *testing.T) {
	const arn = "arn:aws:iam::123456789012:user/ci"
	var got string
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = apigw.Signer(r.Context()) })
	v2 := events.APIGatewayV2HTTPRequest{Version: "2.0", RawPath: "/mcp", RequestContext: events.APIGatewayV2HTTPRequestContext{
		HTTP: events.APIGatewayV2HTTPRequestContextHTTPDescription{Method: "POST"}}}
	signed := v2
	signed.RequestContext.Authorizer = &events.APIGatewayV2HTTPRequestContextAuthorizerDescription{IAM: &events.APIGatewayV2HTTPRequestContextAuthorizerIAMDescription{UserARN: arn}}
	v1 := events.APIGatewayProxyRequest{HTTPMethod: "POST", Path: "/mcp"}
	signed1 := v1
	signed1.RequestContext.Identity.UserArn = arn
	for _, tt := range []struct {
		event any
		want  string
	}{{v2, ""}, {signed, arn}, {v1, ""}, {signed1, arn}} {
		got = "not asked"
		if _, err := apigw.New(h, nil).Invoke(t.Context(), marshal(tt.event)); err != nil {
			t.Fatal(err)
		}
		if got != tt.want {
			t.Errorf("signer is %q, want %q", got, tt.want)
		}
	}
}
