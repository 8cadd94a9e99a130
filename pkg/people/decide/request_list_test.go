package decide_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// flood makes requests of many agents for many tools of a new server, and returns how many.
func flood(t testing.TB, f *fixture, agents, each int) int {
	t.Helper()
	var tools []string
	for n := range each {
		tools = append(tools, gatewaytest.Tool(fmt.Sprint("tool-", n), "Does something.", ""))
	}
	f.Serve("mail", tools...)
	f.Sync()
	v := f.States.Refresh(t.Context()).View(f.Agent)
	for a := range agents {
		asked := request.List{Agent: agentNamed(fmt.Sprint("agent-", a))}
		for n := range each {
			i, ok := v.Find(gatewaytest.ID(t, fmt.Sprint("mail:tool-", n)))
			if !ok {
				t.Fatal("no tool")
			}
			next, made, _, err := asked.Add(request.Request{Status: v.Status(i), Note: "please"}.About(v.ID(i), v.Tool(i).Definition.Hash), request.Granted{}, nil, f.Clock.Wait(time.Millisecond))
			require.OK(t, err)
			if asked, err = f.Requests().PutList(t.Context(), next, made.ID, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	return agents * each
}

// A list has a bounded number of requests, says if there are more, and has the newest first.
func TestRequestsBounded(t *testing.T) {
	f := withRequests(t)
	n := flood(t, f, 60, request.MaxOpen)
	list, all, err := f.service.Requests(f.ctx, true)
	if err != nil || all || len(list) != 500 || n <= 500 {
		t.Fatalf("%d of %d, all %v, %v", len(list), n, all, err)
	}
	if !slices.IsSortedFunc(list, func(a, b decide.Request) int { return b.Opened.Compare(a.Opened) }) {
		t.Error("not the newest first")
	}
	if r := list[0]; r.Agent.ID != "agent-59" || len(r.Alike) != 49 || r.Locked != lock.PendingApproval || slices.Contains(r.Alike, r.ID) {
		t.Errorf("the newest is %+v", r)
	}
	r, err := f.decides(list[0].ID, request.Approved)
	if err != nil || len(r.Unsettled) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	after, _, err := f.service.Requests(f.ctx, false)
	approved := 0
	for _, r := range after {
		if r.State == decide.RequestApproved {
			approved++
		}
	}
	if err != nil || approved < 49 || len(f.events()) != 60 {
		t.Errorf("%d are approved, %d events, %v", approved, len(f.events()), err)
	}
}

// If the requests of one agent cannot be read, the others are still listed.
func TestRequestsPartly(t *testing.T) {
	f := withRequests(t)
	f.asks(agentNamed("a"), "mail:send", "")
	lost := agentNamed("b").Key()
	f.asks(agentNamed("b"), "mail:send", "")
	boom := errors.New("boom")
	f.Approvals.OnDocs = documenttest.DocsOf("ASK#"+lost, func() error { return boom })
	list, all, err := f.service.Requests(f.ctx, true)
	if err != nil || all || len(list) != 1 || list[0].Agent.ID != "a" {
		t.Errorf("%+v, all %v, %v", list, all, err)
	}
	if !strings.Contains(f.Log.String(), "boom") {
		t.Error("the log lacks the cause")
	}
	if r := f.request(list[0].ID); r.Unread != 1 {
		t.Errorf("Unread is %d, want 1", r.Unread)
	}
	if r, err := f.decides(list[0].ID, request.Approved); err != nil || r.State != decide.RequestApproved {
		t.Errorf("approved: %+v, %v", r, err)
	}
	f.Approvals.OnDocs = documenttest.DocsOf("ASK#", func() error { return boom })
	if _, _, err := f.service.Requests(f.ctx, true); !errors.Is(err, boom) {
		t.Errorf("with an unreadable store: %v", err)
	}
}

// Without a store there are no requests, and every method says so.
func TestRequestsNone(t *testing.T) {
	f := newFixture(t)
	service := decide.New(f.States, f.Approvals, decide.Options{})
	for name, do := range map[string]func() error{
		"list":   func() error { _, _, err := service.Requests(f.ctx, true); return err },
		"one":    func() error { _, err := service.Request(f.ctx, "R-00000000"); return err },
		"asking": func() error { _, err := service.Asking(f.ctx, "R-00000000"); return err },
		"ask":    func() error { _, err := service.Ask(f.ctx, "x", decide.Want{}); return err },
		"decide": func() error {
			_, err := service.DecideRequest(f.ctx, "R-00000000", decide.RequestDecision{Verdict: request.Revoked})
			return err
		},
	} {
		if e := service.Explain(f.ctx, "test", do()); e.Status != http.StatusNotImplemented {
			t.Errorf("%s: %v", name, e)
		}
	}
}

// A note is plain text, and arguments are shown only if they match the request's hash.
func TestRequestText(t *testing.T) {
	f, a := withRequests(t), agentNamed("a")
	hostile := "<script>\x1b[2J\u202e" + strings.Repeat("ä", 400)
	id := f.Asks(a, "mail:send", hostile, "")
	if r := f.request(id); r.Note != hostile {
		t.Errorf("the note is %q", r.Note)
	}
	call := f.asks(a, "pay:send_money", `{"to": "kim",  "amount": 5}`)
	if r := f.request(call); string(r.Arguments) != `{"to": "kim",  "amount": 5}` {
		t.Errorf("the arguments are %s", r.Arguments)
	}
	require.OK(t, f.Approvals.PutDocs(t.Context(), document.Doc{
		Key: document.Key{Part: "ASK#" + a.Key(), ID: "ARGS#" + call}, Data: []byte(`{"to":"eve","amount":5000}`), Rev: 1, Keep: f.Clock.Now().Add(time.Hour),
	}))
	if r := f.request(call); r.Arguments != nil {
		t.Errorf("other arguments are shown: %s", r.Arguments)
	}
	_, err := f.decides(call, request.Confirmed)
	f.says(err, http.StatusConflict, "the arguments of this call are no longer stored")
}

// The answer says what is unknown about an agent without its token.
func TestRequestUnsure(t *testing.T) {
	f := withRequests(t)
	f.Forbid(`@id("team") forbid (principal, action, resource == Tool::"mail:send") when { principal has team && principal.team != "ops" };`)
	f.Sync()
	jwt := agentNamed("a")
	id := f.asks(jwt, "mail:send", "")
	r := f.request(id)
	if !r.Unsure || r.Locked != lock.PendingApproval || r.State != decide.RequestOpen {
		t.Errorf("for an agent with a JWT: %+v", r)
	}
	if r, err := f.decides(id, request.Allowed); err != nil || r.State != decide.RequestAllowed || !r.Unsure {
		t.Errorf("allowed: %+v, %v", r, err)
	}
	everybody := f.asks(request.AgentOf(identity.Anonymous()), "mail:send", "")
	if r := f.request(everybody); r.Unsure {
		t.Errorf("for an agent without claims: %+v", r)
	}
	asked := request.Request{Status: lock.DisabledByConfig, Note: "please"}.About(r.Item(), r.Hash)
	other := agentNamed("b")
	next, made, _, err := request.List{Agent: other}.Add(asked, request.Granted{}, nil, f.Clock.Now())
	require.OK(t, err)
	if _, err := f.Requests().PutList(t.Context(), next, made.ID, nil); err != nil {
		t.Fatal(err)
	}
	denied := f.request(made.ID)
	if denied.Locked != lock.DisabledByConfig || !denied.Unsure || !strings.Contains(denied.Rule, "policy.cedar:1 team") || !strings.Contains(denied.Exempt, `principal == Agent::"b" && resource == Tool::"mail:send"`) {
		t.Errorf("denied when it asked: %+v", denied)
	}
}

// The exemption on the page replaces the policy's rule: it lets only that agent call the tool.
func TestRequestExemption(t *testing.T) {
	f := withRequests(t)
	id, other := f.asks(agentNamed("a"), "mail:read_drafts", ""), f.asks(agentNamed("b"), "mail:read_drafts", "")
	r := f.request(id)
	if r.Locked != lock.DisabledByConfig || r.Exempt == "" {
		t.Fatalf("%+v", r)
	}
	f.Forbid(r.Exempt)
	f.Sync()
	f.States.Refresh(t.Context())
	if r := f.request(id); r.Locked != lock.PendingApproval || r.Rule != "" || r.Exempt != "" {
		t.Errorf("exempted: %+v", r)
	}
	if r := f.request(other); r.Locked != lock.DisabledByConfig || r.Exempt == "" {
		t.Errorf("the request of another agent: %+v", r)
	}
	if r, err := f.decides(id, request.Allowed); err != nil || r.State != decide.RequestAllowed || r.Locked != lock.None {
		t.Errorf("allowed: %+v, %v", r, err)
	}
	list := f.request(f.asks(agentNamed("a"), "fs:format_disk", ""))
	if list.Exempt != "" || !strings.Contains(list.Rule, "a list applies to all agents") {
		t.Errorf("denied by a list: %+v", list)
	}
	everybody := f.request(f.asks(request.AgentOf(identity.Anonymous()), "mail:read_drafts", ""))
	if everybody.Exempt != "" || everybody.Rule == "" {
		t.Errorf("if all callers count as one agent: %+v", everybody)
	}
}
