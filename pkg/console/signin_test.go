package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/identity"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/login"
	"github.com/portcullis-mcp/portcullis/pkg/secret"
	"github.com/portcullis-mcp/portcullis/pkg/token"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
)

// withLogin is a fixture on one machine: who bears the key or is signed in is let in.
func withLogin(t *testing.T) (h *fixture, key secret.Text) {
	t.Helper()
	h, key = newFixture(t), token.NewAdmin()
	h.Console.Login = login.New(key, "kim", h.Clock.Now)
	h.Console.Actor = func(r *http.Request) (string, error) {
		agent, err := identity.AdminKey{Digest: token.Digest(key), ID: "kim"}.Authenticate(r)
		return agent.ID, err
	}
	h.Console.Challenge.Send = "the admin key"
	h.Open()
	return h, key
}

// signIn sends the form of the sign-in page, and returns the cookie that the answer sets.
func (h *fixture) signIn(values url.Values) (agenttest.Answer, *http.Cookie) {
	h.T.Helper()
	w := h.Send("/admin/login", values.Encode(), browser, form, "Origin: https://gate.example.com", "Sec-Fetch-Site: same-origin")
	if cookies := w.Cookies(); len(cookies) == 1 {
		return w, cookies[0]
	}
	return w, nil
}

func TestSignIn(t *testing.T) {
	t.Run("by the code of a link, by one click", func(t *testing.T) {
		h, _ := withLogin(t)
		code := h.Console.Login.Code()
		for range 3 { // previews and prefetches
			if page := h.Page(http.StatusOK, "/admin/login?code="+code+"&next=tools/fs/read_file"); !strings.Contains(page, `value="`+code+`"`) || !strings.Contains(page, `value="tools/fs/read_file"`) {
				t.Fatalf("the page does not send the code: %s", page)
			}
		}
		w, cookie := h.signIn(url.Values{"code": {code}, "next": {"tools/fs/read_file"}})
		if w.Status != http.StatusSeeOther || w.Header.Get("Location") != "./tools/fs/read_file" || cookie == nil {
			t.Fatalf("%d to %q, cookie %v", w.Status, w.Header.Get("Location"), cookie)
		}
		if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/admin" || cookie.Name != "portcullis" || len(cookie.Value) < 43 || cookie.Domain != "" {
			t.Errorf("cookie = %+v", cookie)
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
	t.Run("by the key", func(t *testing.T) {
		h, key := withLogin(t)
		w, cookie := h.signIn(url.Values{"key": {" " + key.Reveal() + "\r\n"}})
		if w.Status != http.StatusSeeOther || w.Header.Get("Location") != "../admin" || cookie == nil || strings.Contains(h.Log.String(), key.Reveal()) {
			t.Errorf("%d to %q, cookie %v, log %s", w.Status, w.Header.Get("Location"), cookie, h.Log)
		}
	})
	t.Run("not by anything else", func(t *testing.T) {
		h, _ := withLogin(t)
		for _, values := range []url.Values{{"key": {""}}, {"key": {token.NewAdmin().Reveal()}}, {"code": {"x"}}, {"key": {strings.Repeat("x", 1<<17)}}} {
			if w, cookie := h.signIn(values); w.Status != http.StatusUnauthorized && w.Status != http.StatusBadRequest || cookie != nil {
				t.Errorf("%.40v: %d %v", values, w.Status, cookie)
			}
		}
	})
	t.Run("not for a page of another origin", func(t *testing.T) {
		h, key := withLogin(t)
		code := h.Console.Login.Code()
		for _, origin := range []string{"Origin: https://evil.example.com", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: null"} {
			for _, path := range []string{"/admin/login", "/admin/logout", "/admin/tools/fs/read_file/approve"} {
				h.Problem(http.StatusForbidden, path, url.Values{"code": {code}, "key": {key.Reveal()}}.Encode(), form, origin)
			}
		}
		if !h.Console.Login.Takes(code) {
			t.Error("another origin used up the code")
		}
	})
	t.Run("where nobody can, it says so", func(t *testing.T) {
		h := newFixture(t)
		h.Page(http.StatusNotFound, "/admin/login")
		h.Console.Challenge.Shut = "set BootstrapSha256"
		h.Open()
		if page := h.Page(http.StatusForbidden, "/admin/login?next=tools"); !strings.Contains(page, "set BootstrapSha256") {
			t.Errorf("page = %s", page)
		}
		if w := h.Send("/admin/login", "key=x", form); w.Status != http.StatusForbidden {
			t.Errorf("POST = %d", w.Status)
		}
	})
}

func TestSignInRedirects(t *testing.T) {
	h, _ := withLogin(t)
	for path, want := range map[string]string{
		"/admin":                                 "./admin/login",
		"/admin?status=callable":                 "./admin/login?next=%3Fstatus%3Dcallable",
		"/admin/tools/fs/read_file":              "../../../admin/login?next=tools%2Ffs%2Fread_file",
		"/admin/tools/a%2Fb/c%20d":               "../../../admin/login?next=tools%2Fa%252Fb%2Fc%2520d",
		"/admin/servers":                         "../admin/login?next=servers",
		"/admin//evil.example.com":               "../../admin/login",
		"/admin/" + strings.Repeat("x", 1<<12):   "../admin/login",
		"/admin/tools?status=pending_approval":   "../admin/login?next=tools%3Fstatus%3Dpending_approval",
		"/admin/tools/%2e%2e/%2e%2e/mcp?x=%0d":   "../../../../admin/login",
		"/admin/openapi.json?next=//evil.com%5c": "../admin/login?next=openapi.json%3Fnext%3D%2F%2Fevil.com%255c",
	} {
		w := h.Send(path, "", browser)
		if w.Status != http.StatusSeeOther || w.Header.Get("Location") != want {
			t.Errorf("%.60s = %d to %q, want %q", path, w.Status, w.Header.Get("Location"), want)
		}
		h.Problem(http.StatusUnauthorized, path, "")
		h.Problem(http.StatusUnauthorized, path, "", "Cookie: portcullis=x; portcullis="+token.Random())
	}
	// A form that comes too late is not thrown away for a page to sign in on.
	w := h.Send("/admin/tools/fs/read_file", "action=disable&note=long", browser, form, "Sec-Fetch-Site: same-origin")
	if w.Status != http.StatusUnauthorized || !strings.Contains(w.Body, "nothing was decided") || !strings.Contains(w.Body, `value="tools/fs/read_file"`) || w.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("a late form = %d %s", w.Status, w.Body)
	}
	if s := h.Status("fs:read_file"); s != lock.None {
		t.Errorf("status = %q, want nothing decided", s)
	}
}

// The cookie goes along with no link of another site's page: the page that a chat with an
// agent leads to asks once more, by itself.
func TestSignInFromAnotherSite(t *testing.T) {
	h, key := withLogin(t)
	w := h.Send("/admin/login?next=tools/fs/read_file", "", browser, "Sec-Fetch-Site: cross-site")
	if got := w.Header.Get("Refresh"); got != "0; url=./tools/fs/read_file" {
		t.Errorf("Refresh = %q", got)
	}
	for _, site := range []string{"same-origin", "none", ""} {
		if got := h.Send("/admin/login?next=tools/fs/read_file", "", browser, "Sec-Fetch-Site: "+site).Header.Get("Refresh"); got != "" {
			t.Errorf("from %q it goes round in a circle: %q", site, got)
		}
	}
	_, cookie := h.signIn(url.Values{"key": {key.Reveal()}})
	w = h.Send("/admin/login?next=tools/fs/read_file", "", browser, "Cookie: "+cookie.Name+"="+cookie.Value)
	if w.Status != http.StatusSeeOther || w.Header.Get("Location") != "./tools/fs/read_file" {
		t.Errorf("who is signed in gets %d to %q", w.Status, w.Header.Get("Location"))
	}
}

func TestSignInNext(t *testing.T) {
	for _, next := range []string{
		"//evil.example.com", "/\\evil.example.com", "\\\\evil.example.com", "/mcp", "../mcp", "tools/../../mcp", "%2e%2e/mcp",
		"tools/%2E%2e/%2e%2e/x", "tools\r\nSet-Cookie: a=b", "tools/\x00", "login", "logout", "login?code=x", "./login", strings.Repeat("x", 3000),
	} {
		h, key := withLogin(t)
		w, cookie := h.signIn(url.Values{"key": {key.Reveal()}, "next": {next}})
		if w.Header.Get("Location") != "../admin" || cookie == nil {
			t.Errorf("next=%.40q leads to %q", next, w.Header.Get("Location"))
		}
	}
	for _, next := range []string{"https://evil.example.com", "javascript:alert(1)", "evil.example.com", "https%3A//evil.example.com", "?next=//evil", "tools//evil.example.com"} {
		h, key := withLogin(t)
		w, _ := h.signIn(url.Values{"key": {key.Reveal()}, "next": {next}})
		base := &url.URL{Scheme: "https", Host: "gate.example.com", Path: "/admin/login"}
		to, err := base.Parse(w.Header.Get("Location"))
		if err != nil || to.Host != base.Host || to.Scheme != "https" || !strings.HasPrefix(to.Path, "/admin") {
			t.Errorf("next=%q leads to %v, %v", next, to, err)
		}
	}
}

func TestSignInSession(t *testing.T) {
	open := func(h *fixture, value string) int {
		return h.Send("/admin/servers", "", "Cookie: portcullis="+value).Status
	}
	t.Run("decides", func(t *testing.T) {
		h, key := withLogin(t)
		_, cookie := h.signIn(url.Values{"key": {key.Reveal()}})
		if w := h.Send("/admin/tools/fs/read_file/disable", "{}", "Cookie: portcullis="+cookie.Value); w.Status != http.StatusOK || !strings.Contains(w.Body, `"by":"kim"`) {
			t.Errorf("%d %s", w.Status, w.Body)
		}
	})
	t.Run("is found beside a cookie of another program", func(t *testing.T) {
		h, key := withLogin(t)
		_, cookie := h.signIn(url.Values{"key": {key.Reveal()}})
		if got := open(h, "x; other=y; portcullis="+cookie.Value); got != http.StatusOK {
			t.Errorf("%d", got)
		}
	})
	t.Run("makes up for no bad bearer credential", func(t *testing.T) {
		h, key := withLogin(t)
		_, cookie := h.signIn(url.Values{"key": {key.Reveal()}})
		h.Problem(http.StatusUnauthorized, "/admin/servers", "", "Cookie: portcullis="+cookie.Value, "Authorization: Bearer "+token.NewAdmin().Reveal())
		h.Problem(http.StatusUnauthorized, "/admin/servers", "", "Authorization: Bearer "+cookie.Value)
	})
	t.Run("ends by signing out", func(t *testing.T) {
		h, key := withLogin(t)
		_, cookie := h.signIn(url.Values{"key": {key.Reveal()}})
		w := h.Send("/admin/logout", "x=", browser, form, "Sec-Fetch-Site: same-origin", "Cookie: portcullis="+cookie.Value)
		gone := w.Cookies()
		if w.Status != http.StatusSeeOther || w.Header.Get("Location") != "./login" || len(gone) != 1 || gone[0].MaxAge >= 0 || gone[0].Path != cookie.Path {
			t.Errorf("%d to %q, %v", w.Status, w.Header.Get("Location"), gone)
		}
		if got := open(h, cookie.Value); got != http.StatusUnauthorized {
			t.Errorf("after it: %d", got)
		}
	})
	t.Run("ends by itself", func(t *testing.T) {
		h, key := withLogin(t)
		_, cookie := h.signIn(url.Values{"key": {key.Reveal()}})
		if got := open(h, cookie.Value); got != http.StatusOK {
			t.Fatalf("fresh: %d", got)
		}
		h.Clock.Wait(time.Hour)
		if got := open(h, cookie.Value); got != http.StatusUnauthorized {
			t.Errorf("after an hour: %d", got)
		}
	})
}
