package console_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
)

func TestMe(t *testing.T) {
	t.Run("a caller with credentials has no session", func(t *testing.T) {
		h := newFixture(t)
		page := h.Page(http.StatusOK, "/admin/me")
		if !strings.Contains(page, ">ann<") || !strings.Contains(page, "each of your requests has its own credentials") || strings.Contains(page, "OS user") || strings.Contains(page, "me/revoke") {
			t.Errorf("page = %s", page)
		}
		if w := h.Submit("/admin/me/revoke", url.Values{"id": {"x"}}); w.Status != http.StatusConflict {
			t.Errorf("revoke = %d", w.Status)
		}
		if w := h.Submit("/admin/me/revoke-others", url.Values{"x": {""}}); w.Status != http.StatusSeeOther || w.Header.Get("Location") != "../me?ended=0" {
			t.Errorf("revoke-others = %d to %q", w.Status, w.Header.Get("Location"))
		}
	})
	t.Run("on a laptop the OS user is signed in", func(t *testing.T) {
		h := newLaptop(t)
		w, cookie := h.signIn(url.Values{"code": {h.Console.SignIn.Codes.New()}})
		if cookie == nil {
			t.Fatalf("%d %s", w.Status, w.Body)
		}
		for _, cookie := range []string{"Cookie: " + cookie.Name + "=" + cookie.Value, h.enter()} {
			page := h.Send("/admin/me", "", browser, cookie).Body
			if !strings.Contains(page, `<span class="chip">OS user</span>`) || !strings.Contains(page, "The audit names you <code>kim</code>") {
				t.Errorf("page = %s", page)
			}
		}
	})
	t.Run("the page says if sessions may not have ended", func(t *testing.T) {
		h := newLaptop(t)
		other, here := h.enter(), h.enter()
		page := h.Send("/admin/me", "", browser, here).Body
		form := url.Values{"csrf": {h.Field(page, "csrf")}, "id": {strings.Repeat("0", 64)}}
		h.docs.OnPut = func(context.Context, []document.Doc) (bool, error) { return false, errDown }
		h.docs.OnList = func(context.Context, string) error { return errDown }
		for _, w := range []string{
			h.Send("/admin/me", "", browser, here).Body, h.Submit("/admin/me/revoke-others", form, here).Body,
		} {
			if !strings.Contains(w, "Some of the sessions may not have ended") || strings.Contains(w, "arn:") {
				t.Errorf("got page %s", w)
			}
		}
		h.docs.OnPut, h.docs.OnList = nil, nil
		if h.Send("/admin/servers", "", other).Status != http.StatusOK {
			t.Error("the session of the other person ended")
		}
	})
}

func TestOwnSessions(t *testing.T) {
	h := newLaptop(t)
	as := func(agent string) string {
		_, cookie := h.signIn(url.Values{"key": {h.key.Reveal()}}, "User-Agent: "+agent)
		return "Cookie: " + cookie.Name + "=" + cookie.Value
	}
	open := func(cookie string) bool { return h.Send("/admin/servers", "", cookie).Status == http.StatusOK }
	phone, office := as("phone <b>"), as("office")
	h.Clock.Wait(6 * time.Minute)
	here := as("here")
	page := h.Send("/admin/me", "", browser, here).Body
	says(t, page, "phone &lt;b&gt;", "office", `here <span class="chip callable">this one</span>`, "End all 2 others", "6 min ago", "in 53 min")
	for _, secret := range []string{phone, office, here} {
		lacks(t, page, secret[len("Cookie: __Host-portcullis="):])
	}
	_, of, _ := strings.Cut(page, "phone &lt;b&gt;")
	form := url.Values{"csrf": {h.Field(page, "csrf")}, "id": {h.Field(of, "id")}}
	if w := h.Submit("/admin/me/revoke", form, here); w.Status != http.StatusSeeOther || w.Header.Get("Location") != "../me?ended=1" {
		t.Errorf("%d to %q", w.Status, w.Header.Get("Location"))
	}
	if open(phone) || !open(office) || !open(here) {
		t.Error("want only the phone's session to end")
	}
	if w := h.Submit("/admin/me/revoke", form, here); w.Status != http.StatusSeeOther || w.Header.Get("Location") != "../me" {
		t.Errorf("once more: %d to %q", w.Status, w.Header.Get("Location"))
	}
	if page := h.Send("/admin/me?ended=1", "", browser, here).Body; !strings.Contains(page, "1 session ended") || !strings.Contains(page, "the other one") {
		t.Errorf("page = %s", page)
	}
	as("another")
	if w := h.Submit("/admin/me/revoke-others", form, here); w.Header.Get("Location") != "../me?ended=2" || open(office) || !open(here) {
		t.Errorf("others: %d to %q", w.Status, w.Header.Get("Location"))
	}
	_, of, _ = strings.Cut(page, `this one`)
	form.Set("id", h.Field(of, "id"))
	if w := h.Submit("/admin/me/revoke", form, here); w.Status != http.StatusSeeOther || open(here) || len(w.Cookies()) != 1 || w.Cookies()[0].MaxAge >= 0 {
		t.Errorf("ending the own session: %d %v", w.Status, w.Cookies())
	}
}

// People can switch single keys off, as WCAG 2.1.4 requires, and choose a theme. The browser
// remembers it.
func TestChoicesOfABrowser(t *testing.T) {
	for _, tt := range []struct{ scheme, name, value, reset, mark string }{
		{"https", "keys", "off", "on", "<body>"},
		{"http", "keys", "off", "on", "<body>"},
		{"https", "theme", "dark", "system", `<html lang="en" data-theme="dark">`},
		{"http", "theme", "light", "system", `<html lang="en" data-theme="light">`},
	} {
		t.Run(tt.scheme+" "+tt.value, func(t *testing.T) {
			h := newLaptop(t)
			if tt.scheme == "http" {
				h.overHTTP()
			}
			cookie := h.enter()
			page := h.Send("/admin/me", "", browser, cookie).Body
			if strings.Contains(page, tt.mark) {
				t.Fatalf("the page has the choice at first: %s", page)
			}
			at := "/admin/me/" + tt.name
			form := url.Values{"csrf": {h.Field(page, "csrf")}, tt.name: {tt.value}}
			w := h.Submit(at, form, cookie)
			if w.Status != http.StatusSeeOther || len(w.Cookies()) != 1 || w.Cookies()[0].MaxAge < 30*24*3600 {
				t.Fatalf("%d %v", w.Status, w.Cookies())
			}
			chosen := cookie + "; " + w.Cookies()[0].Name + "=" + w.Cookies()[0].Value
			for _, path := range []string{"/admin", "/admin/me", "/admin/tools/fs/read_file"} {
				page := h.Send(path, "", browser, chosen).Body
				if !strings.Contains(page, tt.mark) {
					t.Errorf("%s lacks the choice", path)
				}
			}
			for _, value := range []string{tt.reset, "<x>"} {
				form.Set(tt.name, value)
				set := h.Submit(at, form, chosen).Cookies()
				if len(set) != 1 || set[0].MaxAge >= 0 {
					t.Errorf("%s set the cookies %v", value, set)
				}
			}
			forged := cookie + "; " + w.Cookies()[0].Name + `="><script>`
			lacks(t, h.Send("/admin/me", "", browser, forged).Body, "<script>", `data-theme`)
		})
	}
}
