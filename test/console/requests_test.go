package console_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity/identitytest"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A gate is the program with one server and an issuer. Agents request access, and people sign in at
// the issuer.
type gate struct {
	*fixture
	issuer *identitytest.Issuer
	server *upstreamtest.Server
}

const (
	sendBefore = `{"name":"send_mail","description":"Sends a mail to one person.","inputSchema":{"type":"object","properties":{"to":{"type":"string"},"text":{"type":"string"}},"required":["to","text"]},"annotations":{"destructiveHint":false}}`
	sendNow    = `{"name":"send_mail","description":"Sends a mail to one person, or to a list.","inputSchema":{"type":"object","properties":{"to":{"type":"string"},"text":{"type":"string"},"bcc":{"type":"string","description":"Copies go here."}},"required":["to","text"]},"annotations":{"destructiveHint":false}}`
	pay        = `{"name":"pay","description":"Pays an invoice.","inputSchema":{"type":"object","properties":{"invoice":{"type":"string"},"amount":{"type":"number"}}},"annotations":{"destructiveHint":false}}`
)

// openGate starts a gate. One tool has changed since its approval, and each call of another tool
// needs a confirmation.
func openGate(t *testing.T) *gate {
	t.Helper()
	t.Parallel()
	g := &gate{
		issuer: startIssuer(t),
		server: upstreamtest.New(
			t,
			upstreamtest.Options{
				Tools: []json.RawMessage{json.RawMessage(sendBefore), json.RawMessage(pay)},
			},
		),
	}
	env := signsInAt(g.issuer)
	maps.Copy(env, map[string]string{"PORTCULLIS_ID_CLAIM": "client_id"})
	dir := t.TempDir()
	programtest.WriteConfig(
		t,
		dir,
		fmt.Sprintf(
			`{"mcpServers": {"office": {"url": %q}}, "gateway": {"requests": true}, "tools": {"confirm": ["office:pay"]}}`,
			g.server.URL,
		),
	)
	admin := g.issuer.Token(
		"gateway",
		map[string]any{"scope": "portcullis:admin", "client_id": "admin"},
	)
	p := programtest.StartWith(t, programtest.Access{Env: env, Admin: admin}, dir)
	g.issuer.Client("console", "", p.URL+"/admin/login/callback")
	g.server.SetTools([]json.RawMessage{json.RawMessage(sendNow), json.RawMessage(pay)})
	p.Sync()
	g.fixture = &fixture{Program: p, tab: browsertest.Open(t, p.URL, g.issuer.URL)}
	return g
}

// agent returns the credentials of an agent that acts for a person.
func (g *gate) agent(id, human string) string {
	return "Authorization: Bearer " + g.issuer.Token(
		"gateway",
		map[string]any{"scope": "portcullis:write", "client_id": id, "sub": human},
	)
}

// call calls a tool of the server as an agent.
func (g *gate) call(as, tool, arguments string) agenttest.Result {
	g.T.Helper()
	return g.Call("call_tool_write", `{"name":"office:`+tool+`","args":`+arguments+`}`, as)
}

// enter opens a page, signs in at the issuer as subject, and waits until the browser is at the
// page.
func (g *gate) enter(path, subject string, claims map[string]any) {
	g.T.Helper()
	g.issuer.Become(subject, claims)
	g.tab.Goto(path)
	atIssuer(g.tab, g.issuer)
	waitForPath(g.tab, path)
}

// kim opens a page as kim, who may decide.
func (g *gate) kim(path string) {
	g.T.Helper()
	g.enter(
		path,
		"8f3",
		map[string]any{
			"email":          "kim@example.com",
			"email_verified": true,
			"groups":         []string{"ops"},
		},
	)
}

var (
	askLink  = regexp.MustCompile(`/admin/ask/[A-Za-z0-9_-]+`)
	someID   = regexp.MustCompile(`R-[0-9A-Z]{8}`)
	someNote = map[string]any{
		"names": []string{"office:send_mail"},
		"note":  "to send the <b>quarterly</b> report",
	}
)

// The pages about a request show actions of other people without a reload, and keep text that a
// person types.
func TestRequestFollows(t *testing.T) {
	g := openGate(t)
	tab := g.tab
	look := func() { browsertest.Eval[bool](tab, `document.dispatchEvent(new Event('visibilitychange'))`) }
	g.CallJSON("request_access", someNote, &struct{}{}, g.agent("deploy-bot", "sam@example.com"))
	var open struct {
		Requests []struct{ ID, Hash string }
	}
	g.Ask(http.StatusOK, "/admin/requests", nil, &open)
	id := open.Requests[0].ID
	g.kim("/admin/requests/" + id)
	tab.SeeText("#rest", "The request")
	browsertest.Eval[bool](tab, `window.same = true`) // a reload would remove this variable
	g.CallJSON("request_access", someNote, &struct{}{}, g.agent("build-bot", "ann@example.com"))
	look()
	tab.SeeText("#rest", "1 other agent asks for the same definition")

	tab.Fill("input[name=reason]", "read it")
	decline := map[string]any{
		"verdict": "declined",
		"hash":    open.Requests[0].Hash,
		"reason":  "use staging",
	}
	g.Ask(http.StatusOK, "/admin/requests/"+id+"/decide", decline, nil)
	look()
	tab.SeeText("#state", "declined")
	tab.SeeText("#live", "What you typed is kept")
	if got := tab.Value("input[name=reason]"); got != "read it" {
		t.Errorf("the reason is %q", got)
	}
	if !browsertest.Eval[bool](tab, `window.same === true`) {
		t.Error("the page was loaded again")
	}
}

// The gateway refuses an agent's call, and the agent's user, who has no role, requests access
// through the link. Another person decides, and the agent's next call succeeds.
func TestAskAndDecide(t *testing.T) {
	g := openGate(t)
	bot, tab := g.agent("deploy-bot", "sam@example.com"), g.tab
	blocked := g.call(bot, "send_mail", `{"to":"a@example.com","text":"x"}`)
	link := askLink.FindString(blocked.Text)
	if !blocked.IsError || link == "" {
		t.Fatalf("the blocked call has no link to ask: %s", blocked.Text)
	}
	g.enter(
		link,
		"sam@example.com",
		map[string]any{"email": "sam@example.com", "email_verified": true},
	)
	tab.SeeText("h1", "deploy-bot")
	tab.SeeText("main", "No request was made yet")
	if tab.Has("header nav") || tab.Has("footer") {
		t.Error("a person without a role sees links to other pages")
	}
	tab.Everywhere("ask")
	tab.Fill(`input[name=why]`, "the report is due")
	tab.Press("Enter")
	tab.SeeText(".message", "No request was made. The text that you typed is below")
	tab.Click(`input[value="480"]`)
	tab.Loads("Ask", func() { tab.Click(`button[name=ask]`) })
	tab.SeeText(".message", "You asked.")
	tab.Everywhere("asked")
	id := someID.FindString(tab.Path())
	g.CallJSON("request_access", someNote, &struct{}{}, g.agent("build-bot", "ann@example.com"))
	tab.Loads("the button", func() { tab.ClickText("header button", "Sign out") })

	g.kim("/admin/requests")
	tab.SeeText("main", "2 agents ask")
	tab.SeeText("header nav", "Requests 1")
	tab.Everywhere("requests")
	tab.Press("j")
	tab.Loads("the request", func() { tab.Press("Enter") })
	waitForPath(tab, "/admin/requests/"+id)
	tab.SeeText("main", "the report is due")
	tab.SeeText("main", "1 other agent asks for the same definition")
	tab.Everywhere("request")
	if shown := tab.Texts("#decide button"); len(shown) < 6 {
		t.Errorf("buttons: %q", shown)
	}
	tab.Press("n")
	tab.Type("read it")
	answered(tab, "Enter in the reason", func() { tab.Press("Enter") })
	tab.SeeText(".message", "Nothing was decided. The text that you typed is below")
	if got := tab.Value(`input[name=reason]`); got != "read it" {
		t.Errorf("the reason is %q", got)
	}
	tab.Loads("8 h", func() { tab.ClickText("#decide button", "8 h") })
	tab.SeeText(".message", "Allowed for this agent only.")
	tab.Everywhere("request-allowed")
	if again := g.call(bot, "send_mail", `{"to":"a@example.com","text":"x"}`); again.IsError {
		t.Errorf("the call after the decision: %s", again.Text)
	}
	if others := g.call(g.agent("build-bot", "ann@example.com"), "send_mail", `{"to":"a@example.com","text":"x"}`); !others.IsError {
		t.Error("another agent can call the tool")
	}
	tab.Loads("End the grant", func() { tab.ClickText("#decide button", "End the grant") })
	tab.SeeText(".message", "Ended.")
	if again := g.call(bot, "send_mail", `{"to":"a@example.com","text":"x"}`); !again.IsError {
		t.Error("the agent can call the tool after the end of the grant")
	}
	tab.Goto("/admin")
	tab.SeeText("main", "1 request")
	tab.Everywhere("inbox-requests")
	tab.Goto("/admin/requests")
	tab.Press("j")
	tab.Loads("the request", func() { tab.Press("Enter") })
	g.pressA()
	tab.SeeText(".message", "Approved for all agents.")
	if again := g.call(bot, "send_mail", `{"to":"a@example.com","text":"x"}`); again.IsError {
		t.Errorf("the call after the approval: %s", again.Text)
	}
	c := &crawler{g.fixture, map[string]int{}, map[string]bool{}, map[string]string{}}
	c.crawl(t, "the start", g.URL+"/admin/requests?state=all")
	t.Logf("%d addresses, %d kinds of forms", len(c.seen), len(c.posts))
}

// The agent's user adds a text to the agent's request. The person who decides sees both texts.
func TestPersonSaysMore(t *testing.T) {
	g := openGate(t)
	tab := g.tab
	var made struct{ Requests []struct{ Request string } }
	g.CallJSON(
		"request_access",
		map[string]any{
			"names": []string{"office:send_mail"},
			"note":  "I have to send the quarterly report to the board.",
		},
		&made,
		g.agent("deploy-bot", "sam@example.com"),
	)
	id := made.Requests[0].Request
	g.enter(
		"/admin/ask/"+id,
		"sam@example.com",
		map[string]any{"email": "sam@example.com", "email_verified": true},
	)
	tab.SeeText("main", "I have to send the quarterly report")
	tab.Fill(`input[name=why]`, "Today only; the list is in the wiki.")
	tab.Click(`input[value="480"]`)
	tab.Loads("Save", func() { tab.ClickText("main button", "Save") })
	tab.SeeText(".message", "You asked.")
	tab.Loads("the button", func() { tab.ClickText("header button", "Sign out") })
	g.kim("/admin/requests/" + id)
	for _, says := range []string{"The agent says", "I have to send the quarterly report", "sam@example.com says", "Today only", "8 hours is enough"} {
		tab.SeeText("main", says)
	}
	tab.Shot("request")
}

// A person confirms one call and declines another, without scripts.
func TestConfirmACall(t *testing.T) {
	g := openGate(t)
	bot, tab := g.agent("deploy-bot", "sam@example.com"), g.tab
	const arguments = `{"invoice":"<img src=x onerror=alert(1)>","amount":12.50}`
	waits := g.call(bot, "pay", arguments)
	id := someID.FindString(waits.Text)
	if !waits.IsError || id == "" {
		t.Fatalf("the call names no request: %s", waits.Text)
	}
	g.kim("/admin/requests/" + id)
	tab.Everywhere("request-call")
	tab.Scripts(false)
	tab.Reload()
	tab.SeeText("#arguments", `"amount": 12.50`)
	tab.SeeText("#arguments", "<img src=x")
	tab.Loads("Confirm", func() { tab.ClickText("#decide button", "Confirm this call") })
	tab.SeeText(".message", "Confirmed.")
	if paid := g.call(bot, "pay", `{"amount":12.50,"invoice":"<img src=x onerror=alert(1)>"}`); paid.IsError {
		t.Errorf("the confirmed call: %s", paid.Text)
	}
	tab.Goto("/admin/requests/" + id)
	tab.SeeText("main", "confirmed and used")
	again := g.call(bot, "pay", arguments)
	next := someID.FindString(strings.ReplaceAll(again.Text, id, ""))
	if !again.IsError || next == "" {
		t.Fatalf("the second call: %s", again.Text)
	}
	tab.Goto("/admin/requests/" + next)
	tab.Forgive(`status 422 of `)
	tab.Loads("Decline without a reason", func() { tab.ClickText("#decide button", "Decline") })
	tab.SeeText(".problem", "the reason is missing")
	tab.Fill(`input[name=reason]`, "use staging")
	tab.Loads("Decline", func() { tab.ClickText("#decide button", "Decline") })
	tab.SeeText(".message", "Declined.")
	if no := g.call(bot, "pay", arguments); !no.IsError ||
		!strings.Contains(no.Text, "use staging") {
		t.Errorf("the declined call: %s", no.Text)
	}
}

// All text from an agent, in requests and arguments, is shown as text: no script runs, nothing is
// hidden, nothing exceeds the edge of the page, and the buttons are there.
func TestHostileRequests(t *testing.T) {
	g := openGate(t)
	const bad = "\u202e\u2066\u200b\"><img src=x onerror=alert(1)><script>alert(2)</script><a href=javascript:alert(3)>"
	bot := g.agent(
		`"><img src=x onerror=alert(1)>`+strings.Repeat("b", 200),
		bad[6:]+strings.Repeat("w", 150),
	)
	var made struct {
		Requests []struct{ Request, Message string }
	}
	g.CallJSON(
		"request_access",
		map[string]any{
			"names": []string{"office:send_mail"},
			"note":  bad + strings.Repeat("w", 380),
		},
		&made,
		bot,
	)
	if len(made.Requests) != 1 || made.Requests[0].Request == "" {
		t.Fatalf("%+v", made)
	}
	arguments, err := json.Marshal(
		map[string]any{
			bad:      bad,
			"long":   strings.Repeat("w", 20_000),
			"hidden": strings.Repeat("\u200b", 2_000),
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	call := someID.FindString(g.call(bot, "pay", string(arguments)).Text)
	g.kim("/admin/requests")
	paths := []string{
		"/admin",
		"/admin/requests",
		"/admin/requests/" + made.Requests[0].Request,
		"/admin/requests/" + call,
		"/admin/ask/" + call,
		"/admin/ask/" + made.Requests[0].Request,
	}
	for n, path := range paths {
		g.tab.Goto(path)
		g.tab.See("h1")
		g.fitsEverywhere()
		g.tab.Shot(fmt.Sprintf("hostile-request-%d", n))
		if n := browsertest.Eval[int](g.tab, foreign); n > 0 {
			t.Errorf("%s: %d elements from the text of an agent", path, n)
		}
		if found := browsertest.Eval[[]string](g.tab, unseen); len(found) > 0 {
			t.Errorf("%s has invisible characters: %q", path, found)
		}
	}
	g.tab.Goto("/admin/requests/" + call)
	g.tab.SeeText("#decide button", "Confirm this call")
}

// Pressing Enter in a field of the pages about requests, with or without script, neither decides
// nor creates a request.
func TestEnterInRequests(t *testing.T) {
	g := openGate(t)
	bot := g.agent("deploy-bot", "8f3")
	link := askLink.FindString(g.call(bot, "send_mail", `{"to":"a","text":"x"}`).Text)
	call := someID.FindString(g.call(bot, "pay", `{"amount":1}`).Text)
	var made struct{ Requests []struct{ Request string } }
	g.CallJSON("request_access", someNote, &made, g.agent("build-bot", "ann@example.com"))
	g.kim("/admin/requests")
	state := func() string { return g.Send("/admin/requests", "").Body }
	before := state()
	for _, scripts := range []bool{true, false} {
		g.tab.Scripts(scripts)
		pressed := 0
		for _, path := range []string{link, "/admin/requests/" + call, "/admin/requests/" + made.Requests[0].Request} {
			g.tab.Goto(path)
			for i := range browsertest.Eval[[]string](g.tab, fields+`.map(e => e.name)`) {
				g.tab.Goto(path)
				browsertest.Eval[bool](g.tab, fmt.Sprintf(`(%s[%d].focus(), true)`, fields, i))
				g.fixture.enter(scripts)
				pressed++
				if after := state(); after != before {
					t.Fatalf("Enter in a field of %s changed the state to %s, it was %s", path, after, before)
				}
			}
		}
		if pressed < 6 {
			t.Errorf("scripts %v: found %d fields: the search is broken", scripts, pressed)
		}
	}
	local.Until(
		t,
		"the list has both requests",
		func() bool { return strings.Contains(state(), call) },
	)
}
