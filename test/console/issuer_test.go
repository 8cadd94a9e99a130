package console_test

import (
	"log/slog"
	"maps"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	bootadmin "github.com/portcullis-mcp/portcullis/internal/boot/admin"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity/identitytest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt/bolttest"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// startIssuer runs an issuer on a site that is not the gateway's. kim signs in there as an
// operator.
func startIssuer(t *testing.T) *identitytest.Issuer {
	t.Helper()
	i := identitytest.StartAt(t, "localhost")
	i.Become("8f3", map[string]any{"email": "kim@example.com", "email_verified": true, "groups": []string{"ops"}})
	i.Ask()
	return i
}

// signsInAt returns the settings of a gateway whose people sign in at an issuer, and whose agents
// have tokens of the issuer.
func signsInAt(i *identitytest.Issuer) map[string]string {
	return map[string]string{
		"PORTCULLIS_AUTH": "jwt", "PORTCULLIS_ISSUER": i.URL, "PORTCULLIS_AUDIENCE": "gateway", "PORTCULLIS_DEFAULT_SERVERS": "*",
		"PORTCULLIS_ADMIN_CLIENT_ID": "console", "PORTCULLIS_OPERATORS": "ops",
	}
}

// startIssued runs the program with its demo and an issuer.
func startIssued(t *testing.T) (*programtest.Program, *identitytest.Issuer) {
	t.Helper()
	i := startIssuer(t)
	p := programtest.StartWith(t, programtest.Access{Env: signsInAt(i), Admin: i.Token("gateway", map[string]any{"scope": "portcullis:admin"})}, t.TempDir(), "--demo")
	i.Client("console", "", p.URL+"/admin/login/callback")
	return p, i
}

// atIssuer presses the button of the sign-in page, and consents at the issuer.
func atIssuer(tab *browsertest.Tab, i *identitytest.Issuer) {
	tab.T.Helper()
	tab.ClickText("main button", "Sign in with "+strings.TrimPrefix(i.URL, "http://"))
	tab.SeeText("h1", "Issuer")
	if at := tab.Location(); !strings.HasPrefix(at, i.URL+"/authorize?") || !strings.Contains(at, "code_challenge_method=S256") || !strings.Contains(at, "nonce=") || !strings.Contains(at, "state=") {
		tab.T.Fatalf("the button leads to %s", at)
	}
	tab.Click("#agree")
}

// waitForPath waits until a tab is at a path of the gateway.
func waitForPath(tab *browsertest.Tab, path string) {
	tab.T.Helper()
	local.Until(tab.T, "the browser is at "+path, func() bool { return tab.Path() == path })
}

// A person who follows an agent's link signs in once at the issuer, and then sees the linked page.
func TestSignInAtAnIssuer(t *testing.T) {
	t.Parallel()
	p, issuer := startIssued(t)
	agent := "Authorization: Bearer " + issuer.Token("gateway", map[string]any{"scope": "portcullis:destructive"})
	const call = `{"name":"tickets:assign_ticket","args":{"id":1,"assignee":"sam"}}`
	blocked := p.Call("call_tool_write", call, agent)
	const link = "/admin/tools/tickets/assign_ticket"
	ask := askLink.FindString(blocked.Text)
	if !blocked.IsError || ask == "" || !strings.Contains(blocked.Text, p.URL+ask) {
		t.Fatalf("the blocked call does not name the page: %s", blocked.Text)
	}
	tab := browsertest.Open(t, p.URL, issuer.URL)
	tab.Goto(ask)
	tab.Everywhere("login-issuer")
	atIssuer(tab, issuer)
	waitForPath(tab, ask)
	tab.SeeText("main", "which acts for you")
	tab.Loads("the way to the item", func() { tab.ClickText("main a", "View") })
	waitForPath(tab, link)
	tab.SeeText("header .actor", "kim@example.com")
	if script := browsertest.Eval[string](tab, `document.cookie`); script != "" {
		t.Errorf("scripts read a cookie: %s", script)
	}
	tab.Loads("the decision", func() { tab.Click(`button[value=approve]`) })
	if again := p.Call("call_tool_write", call, agent); again.IsError {
		t.Errorf("after the approval: %s", again.Text)
	}
	if audit := p.Send("/admin/audit", "").Body; !strings.Contains(audit, `"kim@example.com"`) {
		t.Errorf("the audit does not name kim: %s", audit)
	}
	tab.Goto("/admin/me")
	tab.SeeText("main", "You signed in at the issuer")
	tab.Everywhere("me-issuer")

	tab.Loads("the button", func() { tab.ClickText("header button", "Sign out") })
	tab.SeeText(".message", "You are signed out here. You are still signed in at localhost")
	tab.Everywhere("login-out")
	tab.Goto(link)
	tab.SeeText("h1", "Sign in")
	tab.Goto("/admin/login?out=issuer")
	if issuer.SignedOut() != 0 {
		t.Error("the sign-out at the gateway also signed out at the issuer")
	}
	atIssuer(tab, issuer) // sign in again, without a target page
	waitForPath(tab, "/admin")
	tab.Loads("the button", func() { tab.ClickText("header button", "Sign out") })
	tab.ClickText("main a", "Sign out there too")
	tab.SeeText("h1", "Signed out of the issuer")
	if issuer.SignedOut() != 1 {
		t.Error("the link did not sign out at the issuer")
	}
}

// If the issuer sends a wrong answer, the browser shows the reason. The next sign-in works.
func TestIssuerRefusesInABrowser(t *testing.T) {
	t.Parallel()
	p, issuer := startIssued(t)
	tab := browsertest.Open(t, p.URL, issuer.URL)
	tab.Forgive(`status (400|403|502|503) of .*/admin/login`)
	set := func(name string, value any) identitytest.Bend {
		return identitytest.Bend{Token: func(c map[string]any) { c[name] = value }}
	}
	for _, tt := range []struct {
		name string
		bend identitytest.Bend
		want string
	}{
		{"state", identitytest.Bend{Answer: func(v url.Values) { v.Set("state", strings.Repeat("s", 43)) }}, "does not belong to the last sign-in"},
		{"iss", identitytest.Bend{Answer: func(v url.Values) { v.Set("iss", "https://login.example.org") }}, "is not from localhost"},
		{"refusal", identitytest.Bend{Answer: func(v url.Values) { v.Set("error", "access_denied") }}, "did not sign you in"},
		{"nonce", set("nonce", strings.Repeat("n", 43)), "belongs to another sign-in"},
		{"audience", set("aud", "crm"), "is for another program"},
		{"role", set("groups", []string{"sales"}), "none of your groups there has a role here"},
	} {
		issuer.Bend(tt.bend)
		tab.Goto("/admin/login?next=servers")
		atIssuer(tab, issuer)
		tab.SeeText(".problem", tt.want)
		if tt.name == "role" || tt.name == "state" {
			tab.Everywhere("login-issuer-" + tt.name)
		}
	}
	issuer.Bend(identitytest.Bend{})
	atIssuer(tab, issuer)
	waitForPath(tab, "/admin/servers")
	tab.Goto(p.URL + "/admin/login/callback?code=x&state=x")
	waitForPath(tab, "/admin") // a signed-in person does not see an old error

	issuer.Down(true)
	other := browsertest.Open(t, p.URL, issuer.URL)
	other.Forgive(`status (401|503) of .*/admin/`)
	p.Stop()
	p.Start() // without the issuer's configuration in memory
	tab.Goto("/admin/servers")
	tab.SeeText("header .actor", "kim@example.com") // as before
	other.Goto("/admin/login")
	other.Loads("the button", func() { other.ClickText("main button", "Sign in with") })
	other.SeeText(".problem", "does not answer now")
}

// If a person loses their role while a form is open, the gateway decides nothing and keeps the
// note.
func TestRoleIsTakenAwayWhileTyping(t *testing.T) {
	t.Parallel()
	p, issuer := startIssued(t)
	const path = "/admin/tools/tickets/assign_ticket"
	tab := browsertest.Open(t, p.URL, issuer.URL)
	tab.Forgive(`status 403 of .*/admin/tools`)
	tab.Goto("/admin/login?next=tools/tickets/assign_ticket")
	atIssuer(tab, issuer)
	waitForPath(tab, path)
	tab.Fill(`input[name=note]`, `read twice`)
	p.Stop()
	p.Setenv("PORTCULLIS_OPERATORS", "others")
	p.Start()
	tab.Loads("the form", func() { tab.Click(`button[value=approve]`) })
	tab.SeeText(".problem", "none of your groups there has a role here; nothing was done")
	tab.SeeText("main q", "read twice")
	tab.Everywhere("role-gone")
	if a := p.Send(path, ""); !strings.Contains(a.Body, `"pending_approval"`) {
		t.Errorf("the gateway decided: %s", a.Body)
	}
	p.Stop()
	p.Setenv("PORTCULLIS_OPERATORS", "others,ops")
	p.Start()
	tab.Loads("the page again", func() { tab.Click("main button.main") })
	if note := tab.Value(`input[name=note]`); note != "read twice" {
		t.Errorf("the note is %q", note)
	}
	tab.Loads("the decision", func() { tab.Click(`button[value=approve]`) })
	if a := p.Send(path, ""); !strings.Contains(a.Body, `"callable"`) {
		t.Errorf("the gateway did not decide: %s", a.Body)
	}
}

// The session ends while a person writes a note, and people can sign in only at the issuer.
func TestSessionEndsWhileTypingAtAnIssuer(t *testing.T) {
	t.Parallel()
	p, issuer := startIssued(t)
	const path = "/admin/tools/tickets/assign_ticket"
	tab := browsertest.Open(t, p.URL, issuer.URL)
	tab.Forgive(`status 401 of .*/assign_ticket`)
	tab.Goto("/admin/login?next=tools/tickets/assign_ticket")
	atIssuer(tab, issuer)
	waitForPath(tab, path)
	tab.Fill(`input[name=note]`, `read twice, "ok" for me`)
	second := tab.Again()
	second.Goto("/admin/me")
	second.Loads("the button", func() { second.ClickText("header button", "Sign out") })
	tab.Loads("the late form", func() { tab.Click(`button[value=approve]`) })
	tab.SeeText(".problem", "You are no longer signed in, and nothing was done")
	atIssuer(tab, issuer)
	tab.SeeText("h1", "Signed in")
	tab.SeeText("main q", `read twice, "ok" for me`)
	tab.Loads("the page again", func() { tab.Click("main button.main") })
	waitForPath(tab, path)
	if note := tab.Value(`input[name=note]`); note != `read twice, "ok" for me` || tab.Path() != path {
		t.Errorf("at %s the note is %q", tab.Path(), note)
	}
	if a := p.Send(path, ""); !strings.Contains(a.Body, `"pending_approval"`) {
		t.Errorf("the gateway decided: %s", a.Body)
	}
}

// If another process on the same store ends a session, the next request of the session is refused.
func TestSessionIsRevokedByAnotherProcess(t *testing.T) {
	t.Parallel()
	issuer, folder := startIssuer(t), t.TempDir()
	data := bolttest.Open(t, folder)
	start := func() string {
		server := httptest.NewUnstartedServer(nil)
		env := signsInAt(issuer)
		maps.Copy(env, map[string]string{"PORTCULLIS_BASE_URL": "http://" + server.Listener.Addr().String(), "PORTCULLIS_SEAL_KEY": strings.Repeat("k", 32)})
		s, err := boot.Load(func(name string) string { return env[name] })
		require.OK(t, err)
		p := boot.New(s, boot.Stores{Objects: dir.New(folder), Approvals: data, Tokens: token.NewStore(data)}, boot.Options{Log: slog.New(slog.DiscardHandler)})
		server.Config.Handler, err = bootadmin.Everything(p, bootadmin.Browsers{Store: signin.NewStore(data, nil)})
		require.OK(t, err)
		server.Start()
		t.Cleanup(server.Close)
		issuer.Client("console", "", server.URL+"/admin/login/callback")
		return server.URL
	}
	there, here := start(), start() // the issuer sends the browser back to here
	tab, other := browsertest.Open(t, here, issuer.URL), browsertest.Open(t, here, there, issuer.URL)
	for _, b := range []*browsertest.Tab{tab, other} {
		b.Goto("/admin/me")
		atIssuer(b, issuer)
		waitForPath(b, "/admin/me")
	}
	other.Goto(there + "/admin/me") // cookies do not depend on the port
	other.SeeText("header .actor", "kim@example.com")
	other.Loads("the button", func() { other.ClickText("main button", "End the other one") })
	other.SeeText(".message", "1 session ended")
	tab.Reload()
	waitForPath(tab, "/admin/login?next=me")
	tab.SeeText("h1", "Sign in")
}
