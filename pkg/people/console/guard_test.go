package console_test

import (
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/console"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
)

func TestGuardOtherSites(t *testing.T) {
	h := newFixture(t)
	action := "/admin/tools/fs/read_file/disable"
	for name, headers := range map[string][]string{
		"cross site":           {"Sec-Fetch-Site: cross-site"},
		"same site":            {"Sec-Fetch-Site: same-site"},
		"other origin":         {"Origin: https://evil.example.com"},
		"opaque origin":        {"Origin: null"},
		"other port":           {"Origin: https://gate.example.com:8443"},
		"form of another site": {"Sec-Fetch-Site: cross-site", "Content-Type: application/x-www-form-urlencoded"},
	} {
		t.Run(name, func(t *testing.T) {
			h.Problem(http.StatusForbidden, action, `{}`, headers...)
			h.Problem(http.StatusForbidden, "/admin/tools/fs/read_file", "action=disable", headers...)
		})
	}
	if s := h.Status("fs:read_file"); s != lock.None {
		t.Fatalf("status = %q, want nothing decided", s)
	}
	for name, headers := range map[string][]string{
		"same origin": {"Sec-Fetch-Site: same-origin", "Origin: https://gate.example.com"},
		"no browser":  nil,
	} {
		if w := h.Send(action, `{}`, headers...); w.Status != http.StatusOK {
			t.Errorf("%s: %d %s", name, w.Status, w.Body)
		}
	}
}

func TestContentType(t *testing.T) {
	h := newFixture(t)
	for _, ct := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json+x", "a/b/c"} {
		h.Problem(http.StatusUnsupportedMediaType, "/admin/tools/fs/read_file/disable", `{}`, "Content-Type: "+ct)
	}
	if s := h.Status("fs:read_file"); s != lock.None {
		t.Errorf("status = %q, want nothing decided", s)
	}
}

func TestGuardCallers(t *testing.T) {
	for name, tc := range map[string]struct {
		actor  func(*http.Request) (decide.Actor, error)
		status int
	}{
		"no actor function": {nil, http.StatusUnauthorized},
		"no name":           {func(*http.Request) (decide.Actor, error) { return decide.Actor{Rights: identity.Everything()}, nil }, http.StatusUnauthorized},
		"any error": {func(*http.Request) (decide.Actor, error) {
			return decide.Actor{Name: "ann"}, errors.New("key set at 10.0.0.1")
		}, http.StatusUnauthorized},
		"missing":            {refusing(identity.Missing), http.StatusUnauthorized},
		"not an admin":       {refusing(identity.Scope), http.StatusForbidden},
		"cannot be verified": {refusing(identity.Unavailable), http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t)
			h.Console.Actor = tc.actor
			h.Open()
			for _, path := range []string{"/admin/servers", "/admin/openapi.json", "/admin", "/admin/tools/fs/read_file", "/admin/nope"} {
				if got := h.Problem(tc.status, path, ""); strings.Contains(got, "10.0.0.1") {
					t.Errorf("%s reveals the cause: %q", path, got)
				}
				if got := h.Page(tc.status, path); strings.Contains(got, "10.0.0.1") || strings.Contains(got, "fs") {
					t.Errorf("the page %s reveals too much: %q", path, got)
				}
			}
			h.Problem(tc.status, "/admin/tools/fs/read_file/disable", "{}")
			challenged := tc.status == http.StatusUnauthorized || tc.status == http.StatusForbidden
			if w := h.Send("/admin/servers", ""); (w.Header.Get("WWW-Authenticate") != "") != challenged {
				t.Errorf("WWW-Authenticate = %q", w.Header.Get("WWW-Authenticate"))
			}
			if w := h.Send("/admin/assets/none.css", ""); w.Status != http.StatusNotFound {
				t.Errorf("GET of a missing asset = %d, want 404", w.Status)
			}
		})
	}
}

func refusing(k identity.Kind) func(*http.Request) (decide.Actor, error) {
	return func(*http.Request) (decide.Actor, error) { return decide.Actor{}, &identity.Error{Kind: k} }
}

func TestRefusals(t *testing.T) {
	const send = "an access token of https://login.example.com"
	open := console.Challenge{Send: send, Metadata: "https://gate.example.com/.well-known/oauth-protected-resource/mcp", ScopePrefix: "gate/"}
	scoped := func(k identity.Kind) func(*http.Request) (decide.Actor, error) {
		return func(*http.Request) (decide.Actor, error) {
			return decide.Actor{}, &identity.Error{Kind: k, Scopes: []string{"admin"}}
		}
	}
	const where = `scope="gate/admin", resource_metadata="https://gate.example.com/.well-known/oauth-protected-resource/mcp"`
	for name, tc := range map[string]struct {
		actor     func(*http.Request) (decide.Actor, error)
		challenge console.Challenge
		status    int
		header    string
		detail    string
	}{
		"nothing sent":   {scoped(identity.Missing), open, http.StatusUnauthorized, `Bearer realm="portcullis admin", ` + where, "credentials are required: send " + send},
		"invalid":        {scoped(identity.Invalid), open, http.StatusUnauthorized, `Bearer realm="portcullis admin", error="invalid_token", ` + where, "the credentials are not valid: send " + send},
		"not an admin":   {scoped(identity.Scope), open, http.StatusForbidden, `Bearer realm="portcullis admin", error="insufficient_scope", ` + where, "you may not use the admin API: send " + send},
		"no scope named": {refusing(identity.Missing), console.Challenge{Send: "the key"}, http.StatusUnauthorized, `Bearer realm="portcullis admin"`, "credentials are required: send the key"},
		"shut":           {refusing(identity.Missing), console.Challenge{Shut: "set BootstrapSha256"}, http.StatusForbidden, "", "set BootstrapSha256"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t)
			h.Console.Actor, h.Console.Challenge = tc.actor, tc.challenge
			h.Open()
			if got := h.Problem(tc.status, "/admin/servers", "", "Authorization: Bearer x"); got != tc.detail {
				t.Errorf("detail = %q, want %q", got, tc.detail)
			}
			if got := h.Send("/admin/servers", "", "Authorization: Bearer x").Header.Get("WWW-Authenticate"); got != tc.header {
				t.Errorf("WWW-Authenticate = %q, want %q", got, tc.header)
			}
			said := tc.detail[1:] // on the page, the detail starts with a capital letter
			if page := html.UnescapeString(h.Page(tc.status, "/admin")); !strings.Contains(page, strings.TrimPrefix(said, "he credentials are not valid: ")) {
				t.Errorf("the page does not say %q: %s", tc.detail, page)
			}
		})
	}
}

func TestGuardHeaders(t *testing.T) {
	h := newFixture(t)
	for _, path := range []string{"/admin/servers", "/admin/nope", "/admin/openapi.json"} {
		got := h.Send(path, "").Header
		for name, want := range map[string]string{
			"Cache-Control":           "no-store",
			"X-Content-Type-Options":  "nosniff",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		} {
			if got.Get(name) != want {
				t.Errorf("%s: %s = %q, want %q", path, name, got.Get(name), want)
			}
		}
	}
}

// A gateway on one machine has no sign-in. So it must refuse the requests of a web page whose host
// name resolves to loopback (DNS rebinding).
func TestGuardReboundNames(t *testing.T) {
	h := newFixture(t)
	server := httptest.NewServer(console.New(h.Console))
	defer server.Close()
	h.Client = agenttest.Client{T: t, URL: server.URL}
	for host, want := range map[string]int{
		"evil.example.com:8080":    http.StatusMisdirectedRequest,
		"127.0.0.1.nip.io":         http.StatusMisdirectedRequest,
		"localhost.":               http.StatusMisdirectedRequest,
		"127.0.0.1:8080":           http.StatusOK,
		"127.0.0.1":                http.StatusOK,
		"LOCALHOST:8080":           http.StatusOK,
		"[::1]:8080":               http.StatusOK,
		"[::1]":                    http.StatusOK,
		"gate.example.com":         http.StatusOK, // host of BaseURL, behind a proxy
		"gate.example.com.evil.io": http.StatusMisdirectedRequest,
	} {
		for path, body := range map[string]string{
			"/admin/servers": "", "/admin/health": "", "/admin": "", "/admin/tools/fs/read_file/disable": "{}",
		} {
			if a := h.Send(path, body, "Host: "+host, "Origin: http://"+host); a.Status != want {
				t.Errorf("%s as %q = %d %s, want %d", path, host, a.Status, a.Body, want)
			}
		}
	}
}

// Some paths of the console need no credentials. A request without credentials to such a path never
// reaches the API, with any method.
func TestGuardPublic(t *testing.T) {
	h := newFixture(t)
	var reached []string
	h.Console.Actor = refusing(identity.Missing)
	h.Console.API = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached = append(reached, r.Method+" "+r.URL.Path) })
	h.Transport = agenttest.InProcess(console.New(h.Console))
	for _, path := range []string{"/admin/login", "/admin/logout", "/admin/assets/style.css", "/admin/assets/a/b", "/admin/assets/"} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, "PROPFIND"} {
			h.Do(method, path, "", http.Header{"Accept": {"application/json"}})
		}
	}
	if len(reached) > 0 {
		t.Errorf("these requests without credentials reached the API: %q", reached)
	}
}

// A redirect after a form of our script is a header, which the script can read. Forms of browsers
// and refusals are as they were.
func TestRedirectOfAForm(t *testing.T) {
	h := newFixture(t)
	page := h.Page(http.StatusOK, toolPath)
	form := url.Values{"hash": {h.Field(page, "hash")}, "rev": {h.Field(page, "rev")}}
	const script = "Hx-Request: true"
	w := h.Submit(toolPath+"/disable", form, script)
	if to := w.Header.Get("Hx-Redirect"); w.Status != http.StatusNoContent || w.Body != "" ||
		!strings.HasPrefix(to, "../../../../admin/tools/") || w.Header.Get("Location") != "" {
		t.Errorf("status %d, redirects to %q, and to %q", w.Status, to, w.Header.Get("Location"))
	}
	w = h.Submit(toolPath+"/disable", form, script)
	if w.Status != http.StatusConflict || !strings.Contains(w.Body, `id="main"`) {
		t.Errorf("the second form: status %d %s", w.Status, w.Body)
	}
	form.Set("rev", h.Field(h.Page(http.StatusOK, toolPath), "rev"))
	w = h.Submit(toolPath+"/enable", form)
	if w.Status != http.StatusSeeOther || w.Header.Get("Location") == "" {
		t.Errorf("without the script: status %d", w.Status)
	}
}
