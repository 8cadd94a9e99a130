package console_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity/identitytest"
	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
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
	tab.SeeText("#live", "assign_ticket") // the answer to the decision
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
		{"role", set("groups", []string{"sales"}), "none of your groups there has a role here"},
	} {
		issuer.Bend(tt.bend)
		tab.Goto("/admin/login?next=servers")
		atIssuer(tab, issuer)
		tab.SeeText(".problem", tt.want)
		tab.Everywhere("login-issuer-" + tt.name)
	}
	issuer.Bend(identitytest.Bend{})
	atIssuer(tab, issuer)
	waitForPath(tab, "/admin/servers")
}
