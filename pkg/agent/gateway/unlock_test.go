package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// An unlocking is a gateway whose agents may request access. Server s has the tools push (pending),
// read (approved) and pay, whose calls each need a confirmation. Server out has the tool hide,
// which is out of the agent's scope.
type unlocking struct {
	*fixture
	told []opened
}

// An opened is a reported request, with the id of its agent.
type opened struct {
	agent string
	request.Request
}

func unlock(t *testing.T) *unlocking {
	u := &unlocking{fixture: newFixture(t)}
	u.Serve("s", def("push", "Pushes commits.", ""), def("read", "Reads.", readOnly), def("pay", "Pays.", ""))
	u.Serve("out", def("hide", "Hides.", ""))
	u.Options.Requests, u.Options.Sealer = u.Requests(), sealer(1)
	u.Options.OnRequest = func(_ context.Context, agent string, r request.Request, _ string, _ int) {
		u.told = append(u.told, opened{agent, r})
	}
	u.Agent = identity.Agent{ID: "token:ci", Way: identity.WayToken, Servers: []string{"s"}, Tiers: u.Agent.Tiers}
	u.Restart()
	u.load(
		map[string]string{"s": `"approval":"manual"`, "out": `"approval":"manual"`},
		`"gateway":{"requests":true}`, `"tools":{"confirm":["s:pay"]}`,
	)
	u.Decide("s:read", "approve")
	u.Decide("s:pay", "approve")
	return u
}

// asked returns the stored requests of the agent.
func (u *unlocking) asked() request.List {
	u.T.Helper()
	a, err := u.Requests().List(u.T.Context(), request.AgentOf(u.Agent).Key())
	require.OK(u.T, err)
	return a
}

// want calls request_access for one tool.
func (u *unlocking) want(name string) (state, id, message string) {
	u.T.Helper()
	r := u.Call("request_access", fmt.Sprintf(`{"names":[%q],"note":"to release"}`, name))
	if r.IsError {
		u.T.Fatalf("request_access: %s", r.Text)
	}
	out := require.JSON[struct {
		Requests []struct{ State, Request, Message string }
		NotFound []string `json:"not_found"`
	}](u.T, r.Text)
	if len(out.Requests) == 0 {
		return "not found", "", strings.Join(out.NotFound, " ")
	}
	return out.Requests[0].State, out.Requests[0].Request, out.Requests[0].Message
}

// decides applies a person's verdict to a request of the agent.
func (u *unlocking) decides(id string, v request.Verdict, minutes int, reason string) {
	u.T.Helper()
	agent := request.AgentOf(u.Agent)
	r, ok := u.asked().Find(id)
	if !ok {
		u.T.Fatalf("no request %q", id)
	}
	record := u.Record(r.Item().String())
	_, err := u.Requests().ChangeGranted(u.T.Context(), agent, func(g request.Granted) (request.Granted, error) {
		d := request.Decide(r, v, minutes, "kim", reason, u.Clock.Now())
		d.Against, d.URL = record.DecidedAt, record.URL
		return g.Add(d, false, u.Clock.Now())
	})
	require.OK(u.T, err)
}

// push calls the locked tool.
func (u *unlocking) push() (text string, ran bool) {
	u.T.Helper()
	r := u.Call("call_tool_destructive", `{"name":"s:push","args":{}}`)
	return r.Text, !r.IsError
}

func (u *unlocking) holds(what, text string, wants ...string) {
	u.T.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			u.T.Errorf("%s: %q lacks %q", what, text, want)
		}
	}
}

func (u *unlocking) lacks(what, text string, unwanted ...string) {
	u.T.Helper()
	for _, bad := range unwanted {
		if strings.Contains(text, bad) {
			u.T.Errorf("%s: %q has %q", what, text, bad)
		}
	}
}

func TestUnlockInPlace(t *testing.T) {
	u := unlock(t)
	text, ran := u.push()
	u.holds("the first call", text, "pending_approval", `call request_access with names ["s:push"]`)
	if ran || u.asked().Rev != 0 {
		t.Fatalf("a blocked call ran (%v) or wrote %+v", ran, u.asked())
	}
	state, id, message := u.want("s:push")
	if state != "open" || id == "" {
		t.Fatalf("request_access: %s %s %s", state, id, message)
	}
	u.holds("request_access", message, "Request recorded.", "/admin/ask/"+id)
	if _, again, _ := u.want("s:push"); again != id || len(u.asked().List) != 1 {
		t.Errorf("asked again: %s, was %s", again, id)
	}
	if len(u.told) != 1 || u.told[0].ID != id || u.told[0].agent != "token:ci" {
		t.Errorf("told: %+v", u.told)
	}
	u.Clock.Wait(3 * time.Minute)
	text, _ = u.push()
	u.holds("the retry", text, "You requested access 3 minutes ago ("+id+", open).")

	u.decides(id, request.Allowed, 60, "")
	if text, ran := u.push(); !ran {
		t.Fatalf("the retry after the grant: %s", text)
	}
	if state, _, _ := u.want("s:push"); state != "callable" {
		t.Errorf("request_access for the granted tool = %s", state)
	}
	other := u.Agent
	u.Agent.ID = "token:other"
	if text, ran := u.push(); ran || strings.Contains(text, id) {
		t.Errorf("another agent: %v %s", ran, text)
	}
	u.Agent = other
	u.Clock.Wait(time.Hour)
	text, ran = u.push()
	u.holds("after the end", text, "The grant of access request "+id+" by kim ended just now.", "request_access")
	if ran {
		t.Error("the grant has an effect after its end")
	}
}

// Every change of a tool after a grant ends the grant.
func TestGrantEnds(t *testing.T) {
	for name, happens := range map[string]func(*unlocking){
		"disabled, enabled": func(u *unlocking) { u.Decide("s:push", "disable"); u.Decide("s:push", "enable") },
		"another definition": func(u *unlocking) {
			u.Serve("s", def("push", "Pushes more.", ""), def("read", "Reads.", readOnly))
			u.Sync()
		},
		"changed, not yet seen by this process": func(u *unlocking) {
			u.Serve("s", def("push", "Pushes more.", ""), def("read", "Reads.", readOnly))
			other := *u.Gateway
			other.Restart()
			other.Sync()
		},
		"denied": func(u *unlocking) {
			u.reconfigure(
				map[string]string{"s": `"approval":"manual","disabled_tools":["push"]`},
				`"gateway":{"requests":true}`,
			)
		},
		"it takes two people since": func(u *unlocking) {
			u.reconfigure(
				map[string]string{"s": `"approval":"manual"`}, `"gateway":{"requests":true}`,
				`"review":{"four_eyes":"destructive"}`,
			)
		},
		"stopped, undone": (*unlocking).stoppedOnce,
		"taken back": func(u *unlocking) {
			u.decides(u.asked().List[0].ID, request.Revoked, 0, "")
		},
		"another server": func(u *unlocking) {
			u.Put(config.Key, `{"mcpServers":{"s":{"url":"https://elsewhere.example.com/mcp","approval":"manual"}},"gateway":{"requests":true}}`)
			u.States.Refresh(u.T.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := unlock(t)
			_, id, _ := u.want("s:push")
			u.decides(id, request.Allowed, 60, "")
			if text, ran := u.push(); !ran {
				t.Fatal(text)
			}
			u.Clock.Wait(time.Second)
			happens(u)
			_ = u.Sent()
			if text, ran := u.push(); ran {
				t.Errorf("the tool ran: %s", text)
			}
			u.sentNothing()
		})
	}
}

func TestDeclined(t *testing.T) {
	u := unlock(t)
	_, id, _ := u.want("s:push")
	u.decides(id, request.Declined, 0, "use staging")
	text, ran := u.push()
	u.holds("the retry", text, "kim declined access request "+id+`. Reason: "use staging".`, "request access again in 24 hours")
	state, again, message := u.want("s:push")
	if ran || state != "declined" || again != id || len(u.told) != 1 {
		t.Errorf("asked again: %v %s %s %s", ran, state, again, message)
	}
	u.holds("asked again", message, "No new request was recorded.")
	u.Clock.Wait(24 * time.Hour)
	if state, next, _ := u.want("s:push"); state != "open" || next == id {
		t.Errorf("a day later: %s %s", state, next)
	}
}

// An agent learns nothing about items that do not exist for it.
func TestRequestAccessOutOfScope(t *testing.T) {
	u := unlock(t)
	_, _, hidden := u.want("out:hide")
	_, _, none := u.want("out:none")
	if strings.ReplaceAll(hidden, "hide", "none") != none || u.asked().Rev != 0 || len(u.told) != 0 {
		t.Errorf("out of scope: %q, unknown: %q, written: %+v", hidden, none, u.asked())
	}
	u.Path = "/readonly"
	if state, _, _ := u.want("s:push"); state != "not found" || u.asked().Rev != 0 {
		t.Errorf("request_access for an unselected tool = %s", state)
	}
}

func TestRequestsAreBounded(t *testing.T) {
	u := unlock(t)
	var all []string
	for n := range request.MaxOpen + 1 {
		all = append(all, def(fmt.Sprintf("t%d", n), "Does.", ""))
	}
	u.Serve("s", all...)
	u.Sync()
	for n := range request.MaxOpen {
		u.want(fmt.Sprintf("s:t%d", n))
	}
	state, _, message := u.want("s:t10")
	u.holds("beyond the bound", message, "Nothing was requested", "10 requests")
	if state != "refused" || len(u.told) != request.MaxOpen {
		t.Errorf("%s; %d requests were reported", state, len(u.told))
	}
	// The request for a callable tool no longer counts.
	u.Decide("s:t0", "approve")
	u.States.Refresh(t.Context())
	if state, _, message := u.want("s:t10"); state != "open" {
		t.Errorf("with room for one: %s", message)
	}
	if r := u.Call("request_access", `{"names":["s:t1"],"note":"`+strings.Repeat("x", 501)+`"}`); !r.IsError || !strings.Contains(r.Text, "note has 501 characters") {
		t.Errorf("a long note: %s", r.Text)
	}
}

func TestRequestsWithoutStore(t *testing.T) {
	u := unlock(t)
	down := errors.New("no answer")
	u.Approvals.Documents.OnPut = documenttest.PutOf("ASK#", func() (bool, error) { return false, down })
	state, _, message := u.want("s:push")
	u.holds("a write that fails", message, "could not store the request", "stores no request twice")
	if state != "refused" || len(u.told) != 0 {
		t.Errorf("%s, told %+v", state, u.told)
	}
	u.Approvals.OnDocs = documenttest.DocsOf("ASK#", func() error { return down })
	text, ran := u.push()
	u.holds("a lock whose requests cannot be read", text, "pending_approval", "cannot read earlier access requests")
	if ran {
		t.Error("the locked tool ran")
	}
	u.Approvals.OnDocs = documenttest.DocsOf("GRANT#", func() error { return down })
	if text, ran := u.push(); ran || !strings.Contains(text, "disabled_unknown") {
		t.Errorf("grants that cannot be read: %s", text)
	}
	if r := u.Call("call_tool_read", `{"name":"s:read","args":{}}`); !r.IsError {
		t.Error("the approved tool ran although the agent's grants could not be read")
	}
}

// The config decides whether agents may request access. Without it, the gateway's options decide.
func TestRequestsAreOnAndOff(t *testing.T) {
	for _, test := range []struct {
		key           string
		unsaid, asked bool
	}{{"", false, false}, {"", true, true}, {`"requests":false`, true, false}, {`"requests":true`, false, true}} {
		u := unlock(t)
		u.Options.Asks = test.unsaid
		u.Restart()
		u.Put(config.Key, `{"mcpServers":{"s":{"url":"https://s.example.com/mcp","approval":"manual"}},"gateway":{`+test.key+`}}`)
		u.States.Refresh(t.Context())
		if text, _ := u.push(); strings.Contains(text, "request_access") != test.asked {
			t.Errorf("%+v: text of the lock = %s", test, text)
		}
		_, err := u.Try(`{"name":"request_access","arguments":{"names":["s:push"]}}`)
		if off := err != nil && strings.Contains(err.Error(), "Unknown tool"); off == test.asked {
			t.Errorf("%+v: request_access: %v", test, err)
		}
	}
}

// human gives the agent a known user, and a client that can open pages.
func (u *unlocking) human(modern bool) mcp.Client {
	u.Agent = identity.Agent{ID: "cli", Human: "kim", Subject: "https://issuer.example.com 42", Way: identity.WayJWT, Servers: []string{"s"}, Tiers: u.Agent.Tiers}
	u.Modern = modern
	return mcp.Client{Capabilities: json.RawMessage(`{"elicitation":{"form":{},"url":{}}}`), OpensLinks: !modern}
}

func (u *unlocking) as(c mcp.Client, tool, more string) (json.RawMessage, error) {
	u.T.Helper()
	return u.Open().CallTool(u.T.Context(), parse(u.T, fmt.Sprintf(`{"name":"call_tool_destructive","arguments":{"name":"s:%s","args":{}}%s}`, tool, more)), c)
}

func TestAskedByItsClient(t *testing.T) {
	u := unlock(t)
	c := u.human(true)
	raw, err := u.as(c, "push", "")
	require.OK(t, err)
	asked := require.JSON[struct {
		ResultType    string
		RequestState  string
		InputRequests map[string]struct {
			Method string
			Params struct{ Mode, URL, Message, ElicitationID string }
		}
	}](t, string(raw))
	one := asked.InputRequests["unlock"]
	if asked.ResultType != "input_required" || one.Method != "elicitation/create" || one.Params.Mode != "url" || one.Params.ElicitationID != "" {
		t.Fatalf("a client that opens pages gets %s", raw)
	}
	u.holds("the message", one.Params.Message, `Tool "s:push" is locked: pending_approval.`, "request_access", one.Params.URL)
	code := strings.TrimPrefix(one.Params.URL, u.Options.BaseURL+"/admin/ask/")
	sealed, err := request.OpenCode(t.Context(), u.Options.Sealer, code, u.Clock.Now())
	if err != nil || sealed.Agent != request.AgentOf(u.Agent) || sealed.Item.String() != "s:push" || sealed.Hash != u.Record("s:push").CurrentHash {
		t.Errorf("request in the link = %+v, %v", sealed, err)
	}
	if u.asked().Rev != 0 {
		t.Errorf("the call of a locked tool stored %+v", u.asked())
	}
	for _, answer := range []string{"accept", "decline", "cancel"} {
		raw, err := u.as(c, "push", fmt.Sprintf(`,"requestState":%q,"inputResponses":{"unlock":{"action":%q}}`, asked.RequestState, answer))
		require.OK(t, err)
		if strings.Contains(string(raw), "input_required") || !strings.Contains(string(raw), "pending_approval") {
			t.Errorf("%s: %s", answer, raw)
		}
	}
	u.Decide("s:push", "approve")
	u.succeeds("push did it")(u.as(c, "push", fmt.Sprintf(`,"requestState":%q,"inputResponses":{"unlock":{"action":"accept"}}`, asked.RequestState)))
	if sent := u.Sent(); len(sent) != 1 || strings.Contains(fmt.Sprint(sent), asked.RequestState[:20]) {
		t.Errorf("what was sent: %v", sent)
	}
}

func TestAskedByAnError(t *testing.T) {
	u := unlock(t)
	c := u.human(false)
	_, err := u.as(c, "push", "")
	told, ok := errors.AsType[*mcp.Error](err)
	if !ok || told.Code != mcp.CodeURLElicitation {
		t.Fatalf("the answer is %v", err)
	}
	data := require.JSON[struct {
		Elicitations []struct{ Mode, URL, Message, ElicitationID string }
	}](t, string(told.Data))
	if len(data.Elicitations) != 1 || data.Elicitations[0].ElicitationID == "" || !strings.HasPrefix(data.Elicitations[0].URL, u.Options.BaseURL+"/admin/ask/") {
		t.Errorf("data: %s", told.Data)
	}
	u.holds("the message", told.Message, "pending_approval", "request_access")
	_, again := u.as(c, "push", "")
	if e, ok := errors.AsType[*mcp.Error](again); !ok || e.Message != told.Message {
		t.Errorf("an automatic retry got another message: %v", again)
	}
	_, id, _ := u.want("s:push")
	u.succeeds("You requested access just now (" + id + ", open).")(u.as(c, "push", ""))
}

// Clients that cannot open pages get the lock, with all information in its text.
func TestNotAskedByItsClient(t *testing.T) {
	for name, change := range map[string]func(*unlocking, *mcp.Client){
		"no pages":            func(_ *unlocking, c *mcp.Client) { c.Capabilities = json.RawMessage(`{"elicitation":{"form":{}}}`) },
		"nothing declared":    func(_ *unlocking, c *mcp.Client) { c.Capabilities = nil },
		"an older protocol":   func(u *unlocking, c *mcp.Client) { u.Modern, c.OpensLinks = false, false },
		"its user is unknown": func(u *unlocking, _ *mcp.Client) { u.Agent.Subject = "" },
		"no key":              func(u *unlocking, _ *mcp.Client) { u.Options.Sealer = nil; u.Restart() },
		"no page":             func(u *unlocking, _ *mcp.Client) { u.Options.BaseURL = ""; u.Restart() },
	} {
		t.Run(name, func(t *testing.T) {
			u := unlock(t)
			c := u.human(true)
			change(u, &c)
			raw, err := u.as(c, "push", "")
			if err != nil || !strings.Contains(string(raw), "isError") || !strings.Contains(string(raw), "request_access") {
				t.Errorf("%s %v", raw, err)
			}
		})
	}
}

// Searches show a grant, and its end, within two seconds. In that time they read the grants once.
func TestGrantsAreFound(t *testing.T) {
	u := unlock(t)
	reads := 0
	u.Approvals.OnDocs = documenttest.DocsOf("GRANT#", func() error { reads++; return nil })
	found := func() bool {
		u.T.Helper()
		f := u.search(`{"query":"pushes commits"}`)
		return len(f.Tools) > 0 && f.Tools[0].Name == "s:push" && f.Tools[0].Description == "Pushes commits."
	}
	_, id, _ := u.want("s:push")
	u.decides(id, request.Allowed, 1, "")
	u.Clock.Wait(2 * time.Second)
	reads = 0
	for range 5 {
		if !found() {
			t.Fatal("the search does not find the granted tool")
		}
	}
	if reads != 1 {
		t.Errorf("%d reads for five searches, want 1", reads)
	}
	if r := u.Call("describe_tools", `{"names":["s:push","s:pay"]}`); !strings.Contains(r.Text, `"call_with":"call_tool_destructive"`) || strings.Contains(r.Text, "pending_approval") || strings.Count(r.Text, `"confirm":true`) != 1 {
		t.Errorf("described: %s", r.Text)
	}
	u.Approvals.OnDocs = documenttest.DocsOf("GRANT#", func() error { return errors.New("no answer") })
	u.Clock.Wait(2 * time.Second)
	if found() {
		t.Error("a tool is callable although its grant cannot be read")
	}
	u.Approvals.OnDocs = nil
	u.Clock.Wait(time.Minute)
	if found() {
		t.Error("a tool is callable although its grant has ended")
	}
}

// The audit line of a call names the request that refused or permitted it.
func TestRequestsInTheAudit(t *testing.T) {
	u := unlock(t)
	line := func(name, args string) audit.Line {
		u.Event = new(audit.CallEvent)
		_, err := u.Open().CallTool(t.Context(), parse(t, fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, args)), mcp.Client{})
		require.OK(t, err)
		return u.Event.End(u.Clock.Now())
	}
	push, pay := `{"name":"s:push","args":{}}`, `{"name":"s:pay","args":{}}`
	check := func(what string, l audit.Line, decision, id string) {
		t.Helper()
		if l.Decision != decision || l.Request != id {
			t.Errorf("%s: %s, request %q; want %s, %q", what, l.Decision, l.Request, decision, id)
		}
	}
	locked := line("call_tool_destructive", push)
	check("nothing asked", locked, audit.Locked, "")
	if want := u.Record("s:push").CurrentHash; locked.Definition != want || want == "" {
		t.Errorf("the line of a locked call names the definition %q, want %q", locked.Definition, want)
	}
	asked := line("request_access", `{"names":["s:push"]}`)
	id := u.asked().List[0].ID
	check("asked", asked, audit.Allowed, id)
	check("open", line("call_tool_destructive", push), audit.Locked, id)
	u.decides(id, request.Allowed, 5, "")
	check("granted", line("call_tool_destructive", push), audit.Allowed, id)
	u.Decide("s:push", "approve")
	check("approved for all", line("call_tool_destructive", push), audit.Allowed, "")
	first := line("call_tool_destructive", pay)
	id = u.asked().List[1].ID
	check("to be confirmed", first, audit.Locked, id)
	u.decides(id, request.Confirmed, 0, "")
	check("confirmed", line("call_tool_destructive", pay), audit.Allowed, id)
}
