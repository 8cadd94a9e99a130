package cli

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/testclients"
)

// A gateway whose address has a path serves agents and people below the path, as a proxy passes
// requests on, and commands on its machine at the root.
func TestServeBelowAPath(t *testing.T) {
	g := startGuardedBelow(t, "/gate", "search", nil)
	root := agenttest.Client{T: t, URL: strings.TrimSuffix(g.URL, "/gate")}
	if root.URL == g.URL {
		t.Fatalf("the banner names %s without the path", g.URL)
	}
	for _, c := range []*agenttest.Client{&g.Client, &root} {
		c.Ask(http.StatusOK, "/healthz", nil, nil)
	}
	a := g.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	want := `resource_metadata="` + root.URL + `/.well-known/oauth-protected-resource/gate/mcp"`
	if got := a.Header.Get("WWW-Authenticate"); a.Status != http.StatusUnauthorized ||
		!strings.Contains(got, want) {
		t.Errorf("status %d, challenge %s, want %s", a.Status, got, want)
	}

	page := g.Send("/admin/tools", "", "Accept: text/html")
	if at := page.Header.Get("Location"); page.Status != http.StatusSeeOther ||
		!strings.HasPrefix(at, "../admin/login") {
		t.Errorf("status %d, the browser is sent to %q", page.Status, at)
	}
	form := url.Values{"key": {g.root.Reveal()}}.Encode()
	signed := g.Send(
		"/admin/login",
		form,
		"Content-Type: application/x-www-form-urlencoded",
		"Accept: text/html",
		"Origin: "+root.URL,
	)
	cookies := signed.Cookies()
	if len(cookies) == 0 || cookies[0].Path != "/gate/admin" {
		t.Fatalf("status %d, cookies %v: %s", signed.Status, cookies, signed.Body)
	}
	inside := g.Send("/admin/servers", "", "Accept: text/html", "Cookie: "+cookies[0].String())
	if inside.Status != http.StatusOK {
		t.Errorf("after the sign-in, status %d", inside.Status)
	}

	s := newTerminal(t, nil)
	s.env["PORTCULLIS_TOKEN"] = g.root.Reveal()
	for _, at := range []string{"--url=" + g.URL, "--url=" + g.URL + "/mcp", "--dir=" + g.dir} {
		if out := s.must(0, "servers", at); !strings.Contains(out, "files") {
			t.Errorf("servers %s prints %s", at, out)
		}
	}
	s.must(0, "doctor", "--url="+g.URL)
	if err := g.stop(); err != nil {
		t.Error(err)
	}
	s.env["PORTCULLIS_AUTH"], s.env["PORTCULLIS_BASE_URL"] = "none", "https://example.com/gate"
	if out := s.must(0, "servers", "--dir="+g.dir); !strings.Contains(out, "files") {
		t.Errorf("without a running gateway, servers prints %s", out)
	}
}

// A client finds the issuer of a gateway below a path, and signs in.
func TestTypeScriptOAuthBelowAPath(t *testing.T) {
	g := startGuardedBelow(t, "/gate", "search", nil)
	g.issuer.Grant("portcullis:read")
	got := testclients.OAuth(
		t,
		testclients.SDK,
		g.URL+"/mcp",
		callOf("call_tool_read", "files:read_file"),
	)
	for i, a := range got.Answers {
		if a.Error != nil || !strings.Contains(string(a.Result), "content") {
			t.Errorf("step %d: %+v %s", i, a.Error, a.Result)
		}
	}
	if len(got.Answers) == 0 {
		t.Error("the client got no answer")
	}
}

// The console works in a browser below a path: styles, sign-in, session and a decision.
func TestBrowserBelowAPath(t *testing.T) {
	addr := local.Addr(t)
	env := map[string]string{"PORTCULLIS_BASE_URL": "http://" + addr + "/gate"}
	p := startWith(t, env, t.TempDir(), "--demo", "--addr", addr)
	tab := browsertest.Open(t, "http://"+addr)
	tab.Goto(p.link)
	tab.Click(`main button`)
	tab.See(`header button`)
	if at := tab.Location(); at != p.URL+"/admin" {
		t.Errorf("the sign-in leads to %s", at)
	}
	tab.Goto(p.URL + "/admin/tools/tickets/assign_ticket")
	tab.See(`.chip.pending_approval`)
	tab.Loads("the decision", func() { tab.Click(`#decide button[value=approve]`) })
	if at := tab.Location(); !strings.HasPrefix(at, p.URL+"/admin") {
		t.Errorf("the decision leads to %s", at)
	}
	list := p.Send("/admin/tools?status=callable", "").Body
	if !strings.Contains(list, "assign_ticket") {
		t.Errorf("after the approval these tools are callable: %s", list)
	}
}
