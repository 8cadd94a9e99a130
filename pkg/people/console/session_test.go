package console_test

import (
	"context"
	"errors"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const toolPath = "/admin/tools/fs/read_file"

// The cookie's name and attributes depend on the scheme and the host of the request. A forged
// header does not weaken the cookie.
func TestSessionCookie(t *testing.T) {
	for name, tc := range map[string]struct {
		url, base, host, forwarded string
		want                       string // "": nobody can sign in
	}{
		"https":                         {"https://gate.example.com", "https://gate.example.com", "", "", "__Host-portcullis"},
		"https ends before API Gateway": {"http://gate.example.com", "https://gate.example.com", "", "", "__Host-portcullis"},
		"an unknown custom domain":      {"http://mcp.example.com", "https://abc.execute-api.eu-central-1.amazonaws.com", "", "", "__Host-portcullis"},
		"a proxy says https":            {"http://gate.example.com", "", "", "https", "__Host-portcullis"},
		"two proxies, the outer https":  {"http://gate.example.com", "", "", "HTTPS, http", "__Host-portcullis"},
		"TLS on this machine":           {"https://localhost:8443", "http://127.0.0.1:8080", "", "", "__Host-portcullis"},
		"a proxy for https on loopback": {"http://localhost:8443", "https://localhost:8443", "", "", "__Host-portcullis"},
		"a laptop":                      {"http://127.0.0.1:8080", "http://127.0.0.1:8080", "", "", "portcullis"},
		"a laptop by name":              {"http://localhost:8080", "http://127.0.0.1:8080", "", "", "portcullis"},
		"a laptop without its proxy":    {"http://127.0.0.1:8080", "https://gate.example.com", "", "", "portcullis"},
		"http in a network":             {"http://192.0.2.7:8080", "http://192.0.2.7:8080", "", "", ""},
		"http in a network, no base":    {"http://192.0.2.7:8080", "", "", "http", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newLaptop(t)
			h.URL, h.Console.BaseURL = tc.url, tc.base
			h.Open()
			w, cookie := h.signIn(url.Values{"key": {h.key.Reveal()}}, "X-Forwarded-Proto: "+tc.forwarded)
			if tc.want == "" {
				if w.Status != http.StatusForbidden || cookie != nil || !strings.Contains(w.Body, "plain http") {
					t.Errorf("%d %v %s", w.Status, cookie, w.Body)
				}
				return
			}
			if cookie == nil || cookie.Name != tc.want || !cookie.HttpOnly || cookie.Domain != "" || len(cookie.Value) != 43 || cookie.MaxAge != 0 {
				t.Fatalf("%d, cookie %+v", w.Status, cookie)
			}
			if secure := tc.want != "portcullis"; secure && (!cookie.Secure || cookie.Path != "/" || cookie.SameSite != http.SameSiteLaxMode) ||
				!secure && (cookie.Secure || cookie.Path != "/admin" || cookie.SameSite != http.SameSiteStrictMode) {
				t.Errorf("cookie %+v", cookie)
			}
			for sent, want := range map[string]int{"__Host-portcullis": http.StatusUnauthorized, "portcullis": http.StatusUnauthorized, tc.want: http.StatusOK} {
				if got := h.Send("/admin/servers", "", "Cookie: "+sent+"="+cookie.Value, "X-Forwarded-Proto: "+tc.forwarded).Status; got != want {
					t.Errorf("with the cookie name %s: %d, want %d", sent, got, want)
				}
			}
		})
	}
}

func TestSession(t *testing.T) {
	open := func(h *laptop, cookie string) int { return h.Send("/admin/servers", "", cookie).Status }
	t.Run("is found next to a cookie of another program", func(t *testing.T) {
		h := newLaptop(t)
		cookie := h.enter()
		beside := "Cookie: __Host-portcullis=x; other=y; " + strings.TrimPrefix(cookie, "Cookie: ")
		if got := open(h, beside); got != http.StatusOK {
			t.Errorf("%d", got)
		}
		reads := 0
		h.docs.OnDocs = func(context.Context, []document.Key) error { reads++; return nil }
		many := "Cookie: " + strings.Repeat("__Host-portcullis="+token.Random()+"; ", 100)
		if got := open(h, many); got != http.StatusUnauthorized || reads > 4 {
			t.Errorf("a hundred forged cookies: %d, or more than four reads of the store", got)
		}
		reads = 0
		if got := open(h, "Cookie: __Host-portcullis="+strings.Repeat("x", 4096)); got != http.StatusUnauthorized || reads > 0 {
			t.Errorf("an overlong cookie: %d, or a read of the store", got)
		}
	})
	t.Run("never reuses a cookie that the browser sent", func(t *testing.T) {
		h := newLaptop(t)
		planted := token.Random()
		for name, before := range map[string]string{"forged": "Cookie: __Host-portcullis=" + planted, "of somebody else": h.enter()} {
			w, cookie := h.signIn(url.Values{"key": {h.key.Reveal()}}, before)
			if cookie == nil || "Cookie: __Host-portcullis="+cookie.Value == before {
				t.Errorf("%s: %d, cookie %v", name, w.Status, cookie)
			}
			if got := open(h, before); got != http.StatusUnauthorized {
				t.Errorf("%s: the sent cookie is still valid: %d", name, got)
			}
		}
	})
	t.Run("does not replace a bad bearer credential", func(t *testing.T) {
		h := newLaptop(t)
		cookie := h.enter()
		_, value, _ := strings.Cut(cookie, "=")
		h.Problem(http.StatusUnauthorized, "/admin/servers", "", cookie, "Authorization: Bearer "+token.NewAdmin().Reveal())
		h.Problem(http.StatusUnauthorized, "/admin/servers", "", "Authorization: Bearer "+value)
	})
	t.Run("ends although its page polls", func(t *testing.T) {
		h := newLaptop(t)
		cookie := h.enter()
		for range 181 {
			h.Clock.Wait(20 * time.Second)
			h.Send("/admin", "", browser, cookie, "HX-Request: true", `If-None-Match: "x"`)
		}
		if got := open(h, cookie); got != http.StatusUnauthorized {
			t.Errorf("an hour later: %d", got)
		}
	})
}

// While the store of sessions is down, a session authenticates nobody, so nobody can decide.
func TestSessionWithoutStore(t *testing.T) {
	h := newLaptop(t)
	cookie := h.enter()
	proof := h.Field(h.Send(toolPath, "", browser, cookie).Body, "csrf")
	h.docs.OnDocs = func(context.Context, []document.Key) error { return errDown }
	h.docs.OnPut = func(context.Context, []document.Doc) (bool, error) { return false, errDown }
	h.docs.OnList = func(context.Context, string) error { return errDown }
	for _, w := range []string{
		h.Send(toolPath, "", browser, cookie).Body, h.Submit(toolPath, url.Values{"csrf": {proof}, "action": {"disable"}, "rev": {"1"}}, cookie).Body,
		h.Problem(http.StatusServiceUnavailable, "/admin/servers", "", cookie),
	} {
		if !strings.Contains(w, "cannot be checked now") || !strings.Contains(w, "nothing was done") || strings.Contains(w, "arn:") {
			t.Errorf("got page %s", w)
		}
	}
	if w, again := h.signIn(url.Values{"key": {h.key.Reveal()}}); w.Status != http.StatusServiceUnavailable || again != nil || !strings.Contains(w.Body, "You are not signed in") {
		t.Errorf("sign-in: %d %v %s", w.Status, again, w.Body)
	}
	code := h.Console.SignIn.Codes.New()
	if w, again := h.signIn(url.Values{"code": {code}}); w.Status != http.StatusServiceUnavailable || again != nil || !h.Console.SignIn.Codes.Takes(code) {
		t.Errorf("the link: %d %v; code used up: %v", w.Status, again, !h.Console.SignIn.Codes.Takes(code))
	}
	if w := h.Submit("/admin/logout", url.Values{"csrf": {proof}}, cookie); w.Status != http.StatusServiceUnavailable || len(w.Cookies()) > 0 || !strings.Contains(w.Body, "You are still signed in") {
		t.Errorf("logout: %d %v", w.Status, w.Cookies())
	}
	h.docs.OnDocs, h.docs.OnPut, h.docs.OnList = nil, nil, nil
	if got := h.Send("/admin/servers", "", cookie).Status; got != http.StatusOK || h.Status("fs:read_file") != lock.None {
		t.Errorf("when the store is back: %d, %q", got, h.Status("fs:read_file"))
	}
}

func TestSignOut(t *testing.T) {
	h := newLaptop(t)
	cookie := h.enter()
	proof := h.Field(h.Send("/admin", "", browser, cookie).Body, "csrf")
	for name, values := range map[string]url.Values{"no proof": {"csrf": {""}}, "a wrong proof": {"csrf": {strings.Repeat("0", 64)}}} {
		if w := h.Submit("/admin/logout", values, cookie); w.Status != http.StatusForbidden || !strings.Contains(w.Body, "You are still signed in") {
			t.Errorf("%s: %d %s", name, w.Status, w.Body)
		}
	}
	w := h.Submit("/admin/logout", url.Values{"csrf": {proof}}, cookie)
	gone := w.Cookies()
	if w.Status != http.StatusSeeOther || w.Header.Get("Location") != "../admin/login" || len(gone) != 1 || gone[0].MaxAge >= 0 || gone[0].Name != "__Host-portcullis" || gone[0].Path != "/" {
		t.Errorf("%d to %q, %v", w.Status, w.Header.Get("Location"), gone)
	}
	if got := h.Send("/admin/servers", "", cookie).Status; got != http.StatusUnauthorized {
		t.Errorf("after the sign-out: %d", got)
	}
	if w := h.Submit("/admin/logout", url.Values{"csrf": {proof}}, cookie); w.Status != http.StatusSeeOther || len(w.Cookies()) != 1 {
		t.Errorf("once more: %d", w.Status)
	}
}

// A page of another site can make a browser send a request with its cookies. It cannot read the
// CSRF token in our pages.
func TestSessionProof(t *testing.T) {
	h := newLaptop(t)
	mine, other := h.enter(), h.enter()
	page := h.Send(toolPath, "", browser, mine).Body
	proof, others := h.Field(page, "csrf"), h.Field(h.Send(toolPath, "", browser, other).Body, "csrf")
	rev := h.Field(page, "rev")
	for name, wrong := range map[string]string{"none": "", "of another session": others, "made up": strings.Repeat("0", 64), "cut": proof[1:]} {
		w := h.Submit(toolPath, url.Values{"csrf": {wrong}, "action": {"disable"}, "rev": {rev}, "note": {"<b>typed</b>"}}, mine)
		if w.Status != http.StatusForbidden || !strings.Contains(w.Body, "nothing was done") || !strings.Contains(w.Body, `value="&lt;b&gt;typed&lt;/b&gt;"`) {
			t.Errorf("form, %s: %d %s", name, w.Status, w.Body)
		}
		for _, path := range []string{toolPath + "/disable", "/admin/sync", "/admin/nope"} {
			if detail := h.Problem(http.StatusForbidden, path, `{"csrf":"`+proof+`"}`, mine, "X-CSRF-Token: "+wrong); !strings.Contains(detail, "X-CSRF-Token") {
				t.Errorf("API, %s: %s", name, detail)
			}
		}
		h.Problem(http.StatusForbidden, toolPath+"?csrf="+proof, "action=disable&rev="+rev, form, mine, "X-CSRF-Token: "+wrong)
		for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions, "PROPFIND"} {
			w := h.Do(method, toolPath, "", http.Header{"Cookie": {strings.TrimPrefix(mine, "Cookie: ")}, "X-Csrf-Token": {wrong}})
			if w.Status != http.StatusForbidden {
				t.Errorf("%s, %s: %d", method, name, w.Status)
			}
		}
	}
	for _, origin := range []string{"Origin: https://evil.example.com", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: null"} {
		h.Problem(http.StatusForbidden, toolPath+"/disable", "{}", mine, "X-CSRF-Token: "+proof, origin)
		w := h.Send(toolPath, url.Values{"csrf": {proof}, "action": {"disable"}, "rev": {rev}}.Encode(), form, browser, mine, origin)
		if w.Status != http.StatusForbidden || !strings.HasPrefix(w.Header.Get("Content-Type"), "text/html") || !strings.Contains(w.Body, "comes from another site, and nothing was done") || strings.Contains(w.Body, proof) {
			t.Errorf("%s: %d %s", origin, w.Status, w.Body)
		}
	}
	if s := h.Status("fs:read_file"); s != lock.None {
		t.Fatalf("status = %q, want nothing decided", s)
	}
	if w := h.Submit(toolPath+"/disable", url.Values{"csrf": {proof}, "rev": {rev}}, mine); w.Status != http.StatusSeeOther || h.Status("fs:read_file") != lock.DisabledByUser {
		t.Errorf("the page's own form: %d %s", w.Status, w.Body)
	}
	if w := h.Send(toolPath+"/enable", "{}", mine, "X-CSRF-Token: "+proof); w.Status != http.StatusOK || !strings.Contains(w.Body, `"by":"kim"`) {
		t.Errorf("the API with the header: %d %s", w.Status, w.Body)
	}
	if w := h.Send(toolPath+"/disable", "{}", "Authorization: Bearer "+h.key.Reveal()); w.Status != http.StatusOK {
		t.Errorf("a program without a CSRF token: %d %s", w.Status, w.Body)
	}
}

// follow sends the form of a page, with its hidden fields and the typed values.
func (h *laptop) follow(page string, typed url.Values, headers ...string) (status int, body, at string) {
	h.T.Helper()
	_, main, _ := strings.Cut(page, "<main")
	action := regexp.MustCompile(`<form method="post" action="([^"]*)"`).FindStringSubmatch(main)
	if action == nil {
		h.T.Fatalf("there is no form: %s", main)
	}
	values := url.Values{}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`).FindAllStringSubmatch(main, -1) {
		values.Add(m[1], html.UnescapeString(m[2]))
	}
	for name, v := range typed {
		values[name] = v
	}
	at = "/" + strings.TrimLeft(html.UnescapeString(action[1]), "./")
	w := h.Submit(at, values, headers...)
	for _, c := range w.Cookies() {
		if c.Name == "__Host-portcullis" {
			h.cookie = "Cookie: " + c.Name + "=" + c.Value
		}
	}
	return w.Status, w.Body, at
}

// as returns the fixture of a program that sends the key.
func (h *laptop) as(key secret.Text) *admintest.Fixture {
	d := *h.Fixture
	d.Admin = key.Reveal()
	return &d
}

// A form that comes too late is shown again with the typed text. It has no effect until the person
// sends it again.
func TestLateForm(t *testing.T) {
	typed := url.Values{"action": {"disable"}, "rev": {"1"}, "hash": {"x"}, "note": {`two "words" & more`}, "kept.x": {"y"}, "again": {"1"}}
	const shown = `name="note" maxlength="1000" autocomplete="off" value="two &#34;words&#34; &amp; more"`
	t.Run("after its session", func(t *testing.T) {
		h := newLaptop(t)
		w := h.Submit(toolPath, typed, "Cookie: __Host-portcullis="+token.Random(), "Referer: https://gate.example.com"+toolPath)
		if w.Status != http.StatusUnauthorized || !strings.Contains(w.Body, "nothing was done") || w.Header.Get("WWW-Authenticate") == "" || strings.Contains(w.Body, "kept.again") || strings.Contains(w.Body, "kept.kept") {
			t.Fatalf("%d %s", w.Status, w.Body)
		}
		// A wrong key keeps the form.
		status, body, at := h.follow(w.Body, url.Values{"key": {"x"}})
		if status != http.StatusUnauthorized || at != "/admin/login" {
			t.Fatalf("a wrong key: %d at %s", status, at)
		}
		status, body, _ = h.follow(body, url.Values{"key": {h.key.Reveal()}})
		if status != http.StatusOK || h.cookie == "" {
			t.Fatalf("signed in: %d %s", status, body)
		}
		status, body, at = h.follow(body, nil, h.cookie)
		if status != http.StatusOK || at != toolPath || !strings.Contains(body, shown) || !strings.Contains(body, "Nothing was done: your form came too late") {
			t.Errorf("%d at %s: %s", status, at, body)
		}
		if s := h.Status("fs:read_file"); s != lock.None {
			t.Errorf("status = %q, want nothing decided", s)
		}
		w = h.Submit(toolPath+"/disable", url.Values{"csrf": {h.Field(body, "csrf")}, "rev": {h.Field(body, "rev")}}, h.cookie)
		if w.Status != http.StatusSeeOther {
			t.Errorf("the form that the page shows again cannot decide: %d %s", w.Status, w.Body)
		}
	})
	t.Run("form of the previous session", func(t *testing.T) {
		h := newLaptop(t)
		cookie := h.enter()
		typed["csrf"] = []string{strings.Repeat("0", 64)}
		w := h.Submit(toolPath, typed, cookie, "Referer: https://gate.example.com"+toolPath+"?from=queue")
		if w.Status != http.StatusForbidden {
			t.Fatalf("%d %s", w.Status, w.Body)
		}
		status, body, at := h.follow(w.Body, nil, cookie)
		if status != http.StatusOK || at != toolPath+"?from=queue" || !strings.Contains(body, shown) {
			t.Errorf("%d at %s: %s", status, at, body)
		}
		if s := h.Status("fs:read_file"); s != lock.None {
			t.Errorf("status = %q, want nothing decided", s)
		}
	})
	t.Run("form about several tools", func(t *testing.T) {
		h := newLaptop(t)
		h.Serve("mail", `{"name":"send","annotations":{"readOnlyHint":true}}`)
		h.Sync()
		item := "mail:send " + string(admintest.Into[decide.Tool](h.as(h.key), "/admin/tools/mail/send", "").Hash) + " 2"
		for path, from := range map[string]string{"/admin/tools": "/admin/tools/bulk", "/admin/tools/bulk": "/admin/tools?status=pending_approval"} {
			w := h.Submit(path, url.Values{"action": {"approve"}, "item": {item}, "note": {"all seen"}}, "Referer: https://gate.example.com"+from)
			_, body, _ := h.follow(w.Body, url.Values{"key": {h.key.Reveal()}})
			status, body, at := h.follow(body, nil, h.cookie)
			if status != http.StatusOK || at != "/admin/tools/bulk" || !strings.Contains(body, "came too late") || !strings.Contains(body, "mail:send") || !strings.Contains(body, `value="all seen"`) {
				t.Errorf("%s: %d at %s: %s", path, status, at, body)
			}
		}
		if s := h.Status("mail:send"); s != lock.PendingApproval {
			t.Errorf("status = %q, want nothing decided", s)
		}
		if w := h.Send("/admin/tools/bulk", "", browser, h.cookie); w.Status != http.StatusSeeOther || w.Header.Get("Location") != "../tools" {
			t.Errorf("the bulk page without items: %d to %q", w.Status, w.Header.Get("Location"))
		}
	})
}

func TestLateFormLeadsNowhereElse(t *testing.T) {
	typed := url.Values{"note": {"x"}}
	h := newLaptop(t)
	for _, from := range []string{"https://evil.example.com/admin/tools", "https://gate.example.com/admin//evil.example.com", "https://gate.example.com/admin/../mcp", "javascript:alert(1)", "https://gate.example.com/mcp", "%zz"} {
		w := h.Submit("/admin/tools", typed, "Referer: "+from)
		if next := h.Field(w.Body, "next"); next != "tools" && next != "" {
			t.Errorf("from %s to %q", from, next)
		}
	}
	for _, next := range []string{"//evil.example.com", "../mcp", "https://evil.example.com"} {
		_, cookie := h.signIn(url.Values{"key": {h.key.Reveal()}, "next": {next}, "kept.note": {"x"}})
		if cookie == nil {
			t.Fatal("not signed in")
		}
		w, _ := h.signIn(url.Values{"key": {h.key.Reveal()}, "next": {next}, "kept.note": {"x"}})
		action := regexp.MustCompile(`<main(?s:.*)<form method="post" action="([^"]*)"`).FindStringSubmatch(w.Body)
		base, err := url.Parse("https://gate.example.com/admin/login")
		require.OK(t, err)
		to, err := base.Parse(html.UnescapeString(action[1]))
		if err != nil || to.Host != base.Host || !strings.HasPrefix(to.Path, "/admin") {
			t.Errorf("next=%s leads to %v, %v", next, to, err)
		}
	}
}

func TestSignInRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		status int
		says   string
		wait   string
	}{
		"bad":             {&identity.Error{Kind: identity.Invalid, Err: errors.New("agent token x is expired")}, http.StatusUnauthorized, "not a token of this gateway", ""},
		"no admin's":      {&identity.Error{Kind: identity.Scope}, http.StatusForbidden, "it is not an admin token", ""},
		"throttled":       {&identity.Error{Kind: identity.Throttled, RetryAfter: 2500 * time.Millisecond}, http.StatusTooManyRequests, "in 3 seconds", "3"},
		"not checked":     {&identity.Error{Kind: identity.Unavailable, Err: errors.New("arn:aws:x")}, http.StatusServiceUnavailable, "does not answer", ""},
		"any other fault": {errors.New("arn:aws:x"), http.StatusUnauthorized, "not a token of this gateway", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newLaptop(t)
			h.Console.SignIn.Codes, h.Console.SignIn.Token = nil, true
			h.Console.SignIn.Check = func(*http.Request, secret.Text) (signin.Person, error) { return signin.Person{}, tc.err }
			h.Open()
			text := token.New().Reveal()
			w, cookie := h.signIn(url.Values{"key": {text}})
			if w.Status != tc.status || cookie != nil || !strings.Contains(w.Body, tc.says) || !strings.Contains(w.Body, "You are not signed in") || w.Header.Get("Retry-After") != tc.wait {
				t.Errorf("%d %q %v %s", w.Status, w.Header.Get("Retry-After"), cookie, w.Body)
			}
			if strings.Contains(w.Body, text) || strings.Contains(h.Log.String(), text) || strings.Contains(w.Body, "arn:") || strings.Contains(w.Body, "expired\"") {
				t.Errorf("the page or the log reveals too much: %s\n%s", w.Body, h.Log)
			}
			if all, err := h.store.List(t.Context()); err != nil || len(all) > 0 {
				t.Errorf("a session was opened: %v, %v", all, err)
			}
		})
	}
}

// The answer to an unreadable form differs from the answer to a form of another site.
func TestUnreadableForm(t *testing.T) {
	h := newLaptop(t)
	cookie := h.enter()
	page := h.Send(toolPath, "", browser, cookie).Body
	fields := url.Values{"csrf": {h.Field(page, "csrf")}, "rev": {h.Field(page, "rev")}}.Encode()
	for name, tc := range map[string]struct {
		body   string
		status int
		says   string
	}{
		"too long":      {fields + "&note=" + strings.Repeat("n", 70_000), http.StatusRequestEntityTooLarge, "longer than 64 KB"},
		"a bad escape":  {fields + "&note=%zz", http.StatusBadRequest, "cannot be read"},
		"proof by head": {"note=%zz", http.StatusBadRequest, "cannot be read"},
	} {
		for path, nothing := range map[string]string{toolPath + "/disable": "nothing was decided", "/admin/tools": "nothing was decided", "/admin/logout": "you are still signed in"} {
			w := h.Send(path, tc.body, browser, form, cookie, "X-CSRF-Token: "+h.Field(page, "csrf"))
			if w.Status != tc.status || !strings.Contains(w.Body, tc.says) || !strings.Contains(w.Body, nothing) || !strings.HasPrefix(w.Header.Get("Content-Type"), "text/html") {
				t.Errorf("%s, %s: %d %s", name, path, w.Status, w.Body)
			}
		}
	}
	if w := h.Send(toolPath+"/disable", fields+"&note=%zz", browser, form, cookie); w.Status != http.StatusBadRequest {
		t.Errorf("with the proof in the form: %d %s", w.Status, w.Body)
	}
	if s := h.Status("fs:read_file"); s != lock.None {
		t.Errorf("status = %q, want nothing decided", s)
	}
}

// A form that only requests its page again decides nothing, even with valid credentials.
func TestShownAgainDecidesNothing(t *testing.T) {
	h := newLaptop(t)
	cookie := h.enter()
	page := h.Send(toolPath, "", browser, cookie).Body
	values := url.Values{"rev": {h.Field(page, "rev")}, "hash": {h.Field(page, "hash")}, "again": {"1"}}
	for name, headers := range map[string][]string{
		"the proof in a header": {cookie, "X-CSRF-Token: " + h.Field(page, "csrf")},
		"a bearer credential":   {"Authorization: Bearer " + h.key.Reveal()},
	} {
		if w := h.Submit(toolPath+"/disable", values, headers...); w.Status == http.StatusSeeOther || h.Status("fs:read_file") != lock.None {
			t.Fatalf("%s: %d, status %q; want nothing decided", name, w.Status, h.Status("fs:read_file"))
		}
	}
}
