package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/people/console"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A laptop is a fixture on kim's own machine. It accepts the admin key or a session.
type laptop struct {
	*fixture
	key    secret.Text
	docs   documenttest.Store // of sessions
	store  *signin.Store
	cookie string // last cookie that [laptop.follow] received
}

func newLaptop(t testing.TB) *laptop {
	t.Helper()
	h := &laptop{fixture: newFixture(t), key: token.NewAdmin()}
	h.docs.Now = h.Clock.Now
	h.store = signin.NewStore(&h.docs, h.Clock.Now)
	check := func(r *http.Request) (identity.Agent, error) {
		return identity.AdminKey{Digest: token.Digest(h.key), ID: "kim"}.Authenticate(r)
	}
	key, err := token.NewKey(h.key.Reveal())
	require.OK(t, err)
	h.Console.SignIn = &console.SignIn{
		Sessions: signin.NewSessions(h.store, key, &signin.SessionOptions{Now: h.Clock.Now}),
		Codes:    signin.NewCodes(h.Clock.Now), Owner: "kim",
		Check: func(r *http.Request, text secret.Text) (signin.Person, error) {
			r = r.Clone(r.Context())
			r.Header.Set("Authorization", "Bearer "+text.Reveal())
			agent, err := check(r)
			return signin.Person{Actor: agent.ID, Way: signin.WayKey}, err
		},
	}
	h.Console.Actor = func(r *http.Request) (decide.Actor, error) {
		agent, err := check(r)
		return decide.Actor{Name: agent.ID, Rights: agent.Rights}, err
	}
	h.Console.Challenge.Send = "the admin key"
	h.Open()
	return h
}

// overHTTP makes the browser use http on loopback, as on a laptop.
func (h *laptop) overHTTP() {
	h.URL, h.Console.BaseURL = "http://127.0.0.1:8080", "http://127.0.0.1:8080"
	h.Open()
}

// signIn sends the form of the sign-in page, and returns the cookie of the answer.
func (h *fixture) signIn(values url.Values, headers ...string) (agenttest.Answer, *http.Cookie) {
	h.T.Helper()
	w := h.Submit("/admin/login", values, headers...)
	if cookies := w.Cookies(); len(cookies) == 1 {
		return w, cookies[0]
	}
	return w, nil
}

// enter signs in with the key, and returns the header with the browser's cookie.
func (h *laptop) enter() string {
	h.T.Helper()
	w, cookie := h.signIn(url.Values{"key": {h.key.Reveal()}})
	if cookie == nil {
		h.T.Fatalf("the sign-in with the key failed: %d %s", w.Status, w.Body)
	}
	return "Cookie: " + cookie.Name + "=" + cookie.Value
}

func TestSignIn(t *testing.T) {
	t.Run("with the code of a link, by one click", func(t *testing.T) {
		h := newLaptop(t)
		code := h.Console.SignIn.Codes.New()
		for range 3 { // previews and prefetches
			if page := h.Page(http.StatusOK, "/admin/login?code="+code+"&next=tools/fs/read_file"); !strings.Contains(page, `value="`+code+`"`) || !strings.Contains(page, `value="tools/fs/read_file"`) {
				t.Fatalf("the page does not send the code: %s", page)
			}
		}
		w, cookie := h.signIn(url.Values{"code": {code}, "next": {"tools/fs/read_file"}})
		if w.Status != http.StatusSeeOther || w.Header.Get("Location") != "./tools/fs/read_file" || cookie == nil {
			t.Fatalf("%d to %q, cookie %v", w.Status, w.Header.Get("Location"), cookie)
		}
		if page := h.Send("/admin/tools/fs/read_file", "", browser, "Cookie: "+cookie.Name+"="+cookie.Value).Body; !strings.Contains(page, `<span class="actor">kim</span>`) || !strings.Contains(page, "Sign out") {
			t.Errorf("the page does not say who is signed in: %s", page)
		}
		if w, again := h.signIn(url.Values{"code": {code}}); w.Status != http.StatusUnauthorized || again != nil || !strings.Contains(w.Body, "used already") {
			t.Errorf("the code again: %d %v %s", w.Status, again, w.Body)
		}
		if page := h.Page(http.StatusOK, "/admin/login?code="+code); strings.Contains(page, code) || !strings.Contains(page, "used already") || !strings.Contains(page, "admin.key") {
			t.Errorf("the spent link says %s", page)
		}
		for _, secret := range []string{code, cookie.Value} {
			if strings.Contains(h.Log.String(), secret) {
				t.Error("a secret is in the log")
			}
		}
	})
	t.Run("with the key", func(t *testing.T) {
		h := newLaptop(t)
		w, cookie := h.signIn(url.Values{"key": {" " + h.key.Reveal() + "\r\n"}})
		if w.Status != http.StatusSeeOther || w.Header.Get("Location") != "../admin" || cookie == nil || strings.Contains(h.Log.String(), h.key.Reveal()) {
			t.Errorf("%d to %q, cookie %v, log %s", w.Status, w.Header.Get("Location"), cookie, h.Log)
		}
	})
	t.Run("refused with anything else", func(t *testing.T) {
		h := newLaptop(t)
		for _, values := range []url.Values{{"key": {""}}, {"key": {token.NewAdmin().Reveal()}}, {"code": {"x"}}, {"key": {strings.Repeat("x", 1<<17)}}} {
			if w, cookie := h.signIn(values); w.Status != http.StatusUnauthorized && w.Status != http.StatusBadRequest || cookie != nil {
				t.Errorf("%.40v: %d %v", values, w.Status, cookie)
			}
		}
	})
	t.Run("refused from another origin", func(t *testing.T) {
		h := newLaptop(t)
		code := h.Console.SignIn.Codes.New()
		for _, origin := range []string{"Origin: https://evil.example.com", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: null"} {
			for _, path := range []string{"/admin/login", "/admin/logout", "/admin/tools/fs/read_file/approve"} {
				h.Problem(http.StatusForbidden, path, url.Values{"code": {code}, "key": {h.key.Reveal()}}.Encode(), form, origin)
			}
		}
		if !h.Console.SignIn.Codes.Takes(code) {
			t.Error("another origin used up the code")
		}
	})
	t.Run("the page says if nobody can sign in", func(t *testing.T) {
		h := newFixture(t)
		h.Page(http.StatusNotFound, "/admin/login")
		h.Console.Challenge.Shut = "set BootstrapSha256"
		h.Open()
		says(t, h.Page(http.StatusForbidden, "/admin/login?next=tools"), "Set BootstrapSha256.")
		if w := h.Send("/admin/login", "key=x", form); w.Status != http.StatusForbidden {
			t.Errorf("POST = %d", w.Status)
		}
	})
}

func TestSignInRedirects(t *testing.T) {
	h := newLaptop(t)
	for path, want := range map[string]string{
		"/admin":                                 "./admin/login",
		"/admin?status=callable":                 "./admin/login?next=%3Fstatus%3Dcallable",
		"/admin/tools/fs/read_file":              "../../../admin/login?next=tools%2Ffs%2Fread_file",
		"/admin/tools/a%2Fb/c%20d":               "../../../admin/login?next=tools%2Fa%252Fb%2Fc%2520d",
		"/admin/servers":                         "../admin/login?next=servers",
		"/admin//evil.example.com":               "../../admin/login",
		"/admin/" + strings.Repeat("x", 1<<14):   "../admin/login",
		"/admin/tools?status=pending_approval":   "../admin/login?next=tools%3Fstatus%3Dpending_approval",
		"/admin/tools/%2e%2e/%2e%2e/mcp?x=%0d":   "../../../../admin/login",
		"/admin/openapi.json?next=//evil.com%5c": "../admin/login?next=openapi.json%3Fnext%3D%2F%2Fevil.com%255c",
	} {
		w := h.Send(path, "", browser)
		if w.Status != http.StatusSeeOther || w.Header.Get("Location") != want {
			t.Errorf("%.60s = %d to %q, want %q", path, w.Status, w.Header.Get("Location"), want)
		}
		h.Problem(http.StatusUnauthorized, path, "")
		h.Problem(http.StatusUnauthorized, path, "", "Cookie: __Host-portcullis=x; __Host-portcullis="+token.Random())
	}
}

// If a person follows a link on another site, for example in a chat with an agent, the browser does
// not send the cookie. Therefore the page reloads itself.
func TestSignInFromAnotherSite(t *testing.T) {
	h := newLaptop(t)
	if got := h.Send("/admin/login?next=tools", "", browser, "Sec-Fetch-Site: cross-site").Header.Get("Refresh"); got != "" {
		t.Errorf("over https the browser sends the cookie, but the page reloads itself: %q", got)
	}
	h.overHTTP()
	w := h.Send("/admin/login?next=tools/fs/read_file", "", browser, "Sec-Fetch-Site: cross-site")
	if got := w.Header.Get("Refresh"); got != "0; url=./tools/fs/read_file" {
		t.Errorf("Refresh = %q", got)
	}
	for _, site := range []string{"same-origin", "none", ""} {
		if got := h.Send("/admin/login?next=tools/fs/read_file", "", browser, "Sec-Fetch-Site: "+site).Header.Get("Refresh"); got != "" {
			t.Errorf("from %q the page reloads itself in a loop: %q", site, got)
		}
	}
	w = h.Send("/admin/login?next=tools/fs/read_file", "", browser, h.enter())
	if w.Status != http.StatusSeeOther || w.Header.Get("Location") != "./tools/fs/read_file" {
		t.Errorf("a signed-in person gets %d to %q", w.Status, w.Header.Get("Location"))
	}
}

func TestSignInNext(t *testing.T) {
	for _, next := range []string{
		"//evil.example.com", "/\\evil.example.com", "\\\\evil.example.com", "/mcp", "../mcp", "tools/../../mcp", "%2e%2e/mcp",
		"tools/%2E%2e/%2e%2e/x", "tools\r\nSet-Cookie: a=b", "tools/\x00", "login", "logout", "login?code=x", "./login", strings.Repeat("x", 9000),
	} {
		h := newLaptop(t)
		w, cookie := h.signIn(url.Values{"key": {h.key.Reveal()}, "next": {next}})
		if w.Header.Get("Location") != "../admin" || cookie == nil {
			t.Errorf("next=%.40q leads to %q", next, w.Header.Get("Location"))
		}
	}
}

// A sign-in leads only to addresses below /admin of the gateway.
func FuzzSignInNext(f *testing.F) {
	for _, next := range []string{"", "tools/fs/read_file", "?status=callable", "//evil.example.com", "tools/%2e%2e/%2e%2e/mcp", `\\evil`, "https:evil.example.com", "tools\r\nX: y", "a/..;/b", ".", "%2f%2fevil", "javascript:alert(1)", "evil.example.com", "https%3A//evil.example.com", "?next=//evil", "tools//evil.example.com"} {
		f.Add(next)
	}
	h := newLaptop(f)
	f.Fuzz(func(t *testing.T, next string) {
		h.T, h.Client.T = t, t
		w, cookie := h.signIn(url.Values{"key": {h.key.Reveal()}, "next": {next}})
		base := &url.URL{Scheme: "https", Host: "gate.example.com", Path: "/stage/admin/login"} // behind a prefix
		to, err := base.Parse(w.Header.Get("Location"))
		if w.Status != http.StatusSeeOther || cookie == nil || err != nil || to.Host != base.Host || to.Scheme != "https" {
			t.Fatalf("next=%q: %d to %v, %v", next, w.Status, to, err)
		}
		if to.Path != "/stage/admin" && !strings.HasPrefix(to.Path, "/stage/admin/") {
			t.Errorf("next=%q leads to %s", next, to)
		}
	})
}
