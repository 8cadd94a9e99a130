package boot

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/aws/apigw"
	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// urlEvent returns an event of a Function URL. Its Host header comes from the sender.
func urlEvent(t *testing.T, method, path, domain string, headers map[string]string) apigw.Event {
	t.Helper()
	data, err := json.Marshal(map[string]any{
		"version": "2.0", "rawPath": path, "headers": headers,
		"requestContext": map[string]any{"domainName": domain, "stage": "$default", "http": map[string]string{"method": method, "path": path, "sourceIp": "203.0.113.7"}},
	})
	require.OK(t, err)
	var e apigw.Event
	require.OK(t, json.Unmarshal(data, &e))
	return e
}

// The settings of a function behind a Function URL do not contain the function's own address. The
// function uses the address that AWS reports, and never an address from the sender.
func TestAddressOfAFunctionURL(t *testing.T) {
	const domain, admin = "abc.lambda-url.eu-central-1.on.aws", "https://api.example.com"
	s, err := Load(environ([]string{
		"PORTCULLIS_AUTH=jwt", "PORTCULLIS_ISSUER=https://login.example.com", "PORTCULLIS_STREAMING=url", "PORTCULLIS_ADMIN_URL=" + admin + "/",
	}))
	require.OK(t, err)
	h, err := New(s, Stores{Objects: &objecttest.Mem{}, Approvals: &approvaltest.Mem{}}, Options{}).PublicAnywhere(t.Context())
	require.OK(t, err)
	front := apigw.NewStream(h, nil)
	for _, tt := range []struct {
		name, method, path, domain string
		headers                    map[string]string
		status                     int
		want                       string // in headers or body
	}{
		{"metadata", "GET", "/.well-known/oauth-protected-resource/mcp", domain, nil, 200, `"resource":"https://` + domain + `/mcp"`},
		{"challenge", "POST", "/mcp", domain, map[string]string{"content-type": "application/json"}, 401, `resource_metadata="https://` + domain + `/.well-known/oauth-protected-resource/mcp"`},
		{"address of the console", "GET", "/mcp", domain, map[string]string{"accept": "text/html"}, 405, admin + "/admin\n"},
		{"address for clients", "GET", "/mcp", domain, map[string]string{"accept": "text/html"}, 405, "https://" + domain + "/mcp\n"},
		{"another domain", "GET", "/.well-known/oauth-protected-resource/mcp", "other.example.com", nil, 200, `"resource":"https://other.example.com/mcp"`},
		{"no domain", "GET", "/healthz", "", nil, 500, "internal error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			headers := map[string]string{"host": "evil.example.com", "x-forwarded-host": "evil.example.com"}
			for name, value := range tt.headers {
				headers[name] = value
			}
			a, err := front.Answer(t.Context(), urlEvent(t, tt.method, tt.path, tt.domain, headers))
			require.OK(t, err)
			body, err := io.ReadAll(a.Body)
			require.OK(t, err)
			said := a.Headers["Www-Authenticate"] + string(body)
			if a.StatusCode != tt.status || !strings.Contains(said, tt.want) || strings.Contains(said, "evil") {
				t.Errorf("%d %s, want %d and %s", a.StatusCode, said, tt.status, tt.want)
			}
		})
	}
}

// Wrong settings keep the function from starting, even though its address is not known yet.
func TestLoadStreaming(t *testing.T) {
	jwt := []string{"PORTCULLIS_AUTH=jwt", "PORTCULLIS_ISSUER=https://login.example.com"}
	for _, tt := range []struct {
		name string
		env  []string
		want string // "": no fault
	}{
		{"its own address", append(jwt, "PORTCULLIS_STREAMING=url"), ""},
		{"another audience", append(jwt, "PORTCULLIS_STREAMING=url", "PORTCULLIS_AUDIENCE=api://gate"), ""},
		{"no issuer", []string{"PORTCULLIS_AUTH=jwt", "PORTCULLIS_STREAMING=url"}, "issuer"},
		{"an algorithm that is not allowed", append(jwt, "PORTCULLIS_STREAMING=url", "PORTCULLIS_ALGORITHMS=HS256"), "HS256"},
		{"an API without an address", append(jwt, "PORTCULLIS_STREAMING=none", "PORTCULLIS_AUDIENCE=a"), "PORTCULLIS_BASE_URL"},
		{"a REST API at a domain", append(jwt, "PORTCULLIS_AUDIENCE=api://gate", "PORTCULLIS_STREAMING=rest", "PORTCULLIS_BASE_URL=https://gate.example.com"), ""},
		{"a REST API without a domain", []string{"PORTCULLIS_AUTH=none", "PORTCULLIS_STREAMING=rest"}, "PORTCULLIS_BASE_URL"},
		{"an unknown front", []string{"PORTCULLIS_AUTH=none", "PORTCULLIS_STREAMING=yes"}, "PORTCULLIS_STREAMING"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Load(environ(tt.env)); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Load = %v, want %q", err, tt.want)
			}
		})
	}
	s, err := Load(environ([]string{"PORTCULLIS_AUTH=none", "PORTCULLIS_BASE_URL=https://gate.example.com"}))
	if err != nil || s.AdminURL != s.BaseURL {
		t.Errorf("AdminURL = %q, %v; want the BaseURL", s.AdminURL, err)
	}
}

// The limit of an upstream call is shorter than the limit of its request, which is shorter than the
// limit of the function.
func TestFrontsEndInOrder(t *testing.T) {
	for name, tt := range map[string]struct {
		front    Timeouts
		function time.Duration
	}{
		"an API":         {Settings{}.Timeouts(), 28 * time.Second},
		"a Function URL": {Settings{Streaming: true}.Timeouts(), 900 * time.Second},
		"a laptop":       {Local(), 1 << 62},
	} {
		if f := tt.front; f.Call <= 0 || f.Call >= f.Request || f.Request >= tt.function {
			t.Errorf("%s: want %v < %v < %v", name, f.Call, f.Request, tt.function)
		}
	}
	if h := New(Settings{Streaming: true}, Stores{}, Options{}).Timeouts; h != Streamed() {
		t.Errorf("a program that streams has the timeouts %v", h)
	}
	if h := New(Settings{}, Stores{}, Options{Front: Local()}).Timeouts; h != Local() {
		t.Errorf("the timeouts of Options.Front are not in use: %v", h)
	}
}
