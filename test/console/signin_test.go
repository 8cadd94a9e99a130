package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
)

// With agent tokens, a person who follows an agent's link enters an admin token once. Then they
// create a token and revoke it.
func TestSignInWithAToken(t *testing.T) {
	t.Parallel()
	p := programtest.StartWith(t, programtest.Tokens(), t.TempDir(), "--demo")
	kim := p.Token("kim", true)
	blocked := p.Call("call_tool_write", `{"name":"tickets:assign_ticket","args":{"id":1,"assignee":"sam"}}`, "Authorization: Bearer "+kim)
	const link = "/admin/tools/tickets/assign_ticket"
	if !blocked.IsError || !strings.Contains(blocked.Text, p.URL+link) {
		t.Fatalf("the blocked call does not name the page: %s", blocked.Text)
	}

	tab := browsertest.Open(t, p.URL)
	tab.Goto(link)
	tab.Everywhere("login-token")
	tab.Forgive(`status 401 of .*/login`)
	tab.Fill(`input[name=key]`, token.New().Reveal())
	tab.Loads("a wrong token", func() { tab.Click("main button") })
	tab.SeeText(".problem", "not a token of this gateway")
	tab.Fill(`input[name=key]`, kim)
	tab.Loads("the token", func() { tab.Click("main button") })
	if at := tab.Path(); at != link {
		t.Errorf("the sign-in leads to %s, want %s", at, link)
	}
	if script := browsertest.Eval[string](tab, `document.cookie`); script != "" {
		t.Errorf("scripts read the session: %s", script)
	}

	tab.ClickText("header a", "token:kim")
	tab.SeeText("h1", "token:kim")
	tab.Everywhere("me-token")
	tab.ClickText("nav a", "Tokens")
	tab.SeeText("h1", "Agent tokens")
	tab.Fill(`input[name=name]`, "ci")
	tab.Fill(`input[name=servers]`, "notes, tickets")
	tab.Click(`input[value=read]`)
	tab.Loads("the new token", func() { tab.ClickText("main button", "Make the token") })
	tab.SeeText("h2", "token:ci is made")
	made := tab.Value(`input[readonly]`)
	tab.Everywhere("tokens-made")
	if a := p.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Authorization: Bearer "+made); a.Status != http.StatusOK {
		t.Errorf("answer to the token on the page: %d", a.Status)
	}
	tab.Goto("/admin/tokens")
	tab.Loads("the question", func() { tab.Click(`tr:has(td:first-child) a.button`) })
	tab.SeeText("h1", "Revoke token:ci")
	tab.Everywhere("revoke")
	tab.Loads("the revocation", func() { tab.ClickText("main button", "Revoke it") })
	tab.SeeText(".message", "token:ci is revoked")
	tab.Everywhere("tokens")
	if a := p.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Authorization: Bearer "+made); a.Status != http.StatusUnauthorized {
		t.Errorf("answer to the revoked token: %d", a.Status)
	}
	if strings.Contains(p.Log.String(), kim) || strings.Contains(p.Log.String(), made) {
		t.Error("a token is in the log")
	}
}

// If the session ends elsewhere while a person types a note, the person only needs to sign in
// again.
func TestSessionEndsWhileTyping(t *testing.T) {
	t.Parallel()
	p := programtest.Start(t, t.TempDir(), "--demo", "--actor", "kim")
	const path = "/admin/tools/tickets/assign_ticket"
	tab := browsertest.Open(t, p.URL)
	tab.Goto(p.Link)
	tab.Everywhere("login-link")
	tab.Loads("the button of the link", func() { tab.Click("main button") })
	tab.Goto("/admin/me")
	tab.Everywhere("me")
	tab.Goto(path)
	tab.Fill(`input[name=note]`, `read twice, "ok" for me`)

	cookie := "Cookie: portcullis=" + tab.Cookie("portcullis")
	elsewhere := &admintest.Fixture{T: t, Client: p.Client}
	elsewhere.Admin = ""
	proof := elsewhere.Field(elsewhere.Send("/admin", "", admintest.Browser, cookie).Body, "csrf")
	if a := elsewhere.Submit("/admin/logout", url.Values{"csrf": {proof}}, cookie); a.Status != http.StatusSeeOther {
		t.Fatalf("logout: %d %s", a.Status, a.Body)
	}
	tab.Forgive(`status 401 of .*/assign_ticket`)
	answered(tab, "the late form", func() { tab.Click(`button[value=approve]`) })
	tab.SeeText(".problem", "You are no longer signed in, and nothing was done")
	if shown := tab.Texts(".top, footer"); len(shown) != 1 || strings.Contains(shown[0], "kim") {
		t.Errorf("around the sign-in, a signed-out person sees %q", shown)
	}
	tab.Everywhere("login-late")
	tab.Fill(`input[name=key]`, p.Admin)
	tab.Loads("the key", func() { tab.Click("main button") })
	tab.SeeText("h1", "Signed in")
	tab.Everywhere("again")
	tab.Loads("the page again", func() { tab.Click("main button") })
	if at := tab.Path(); at != path {
		t.Errorf("the sign-in leads to %s", at)
	}
	tab.SeeText(".problem", "Nothing was done: your form came too late")
	if note := tab.Value(`input[name=note]`); note != `read twice, "ok" for me` {
		t.Errorf("the note is %q", note)
	}
	if a := p.Send(path, ""); !strings.Contains(a.Body, `"pending_approval"`) {
		t.Errorf("the gateway decided: %s", a.Body)
	}
	tab.Loads("the decision", func() { tab.Click(`button[value=approve]`) })
	if a := p.Send(path, ""); !strings.Contains(a.Body, `"callable"`) || !strings.Contains(a.Body, `read twice`) {
		t.Errorf("the gateway did not decide: %s", a.Body)
	}
}
