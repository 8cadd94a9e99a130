package decide_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// outcomes maps each verdict to the request's state after it. If the verdict is refused, the value
// is a part of the refusal, in parentheses.
type outcomes map[request.Verdict]string

// check tries each verdict on a new fixture.
func (want outcomes) check(t *testing.T, set func(*fixture) (id string)) {
	t.Helper()
	for _, v := range decide.Verdicts() {
		f := withRequests(t)
		id := set(f)
		before := f.request(id)
		r, err := f.decides(id, v)
		got := string(r.State)
		if err != nil {
			e := f.service.Explain(f.ctx, "test", err)
			got = "(" + e.Detail + ")"
			if e.Status >= http.StatusInternalServerError || !strings.Contains(e.Detail, "nothing ") {
				t.Errorf("%s: refused with %d %s, which does not say that nothing was done", v, e.Status, e.Detail)
			}
			after := f.request(id)
			if after.State != before.State || after.Decided != before.Decided {
				t.Errorf("%s was refused, and the request is %+v", v, after)
			}
		}
		if w := want[v]; got != w && (w == "" || !strings.HasPrefix(w, "(") || !strings.Contains(got, strings.Trim(w, "()"))) {
			t.Errorf("%s: %s, want %s", v, got, w)
		}
	}
}

// Parts of the refusals for each kind of request.
const (
	none    = "(there is nothing to revoke)"
	noLock  = "(no decision about a request can unlock this tool)"
	access  = "(request for access and not for one call)"
	oneCall = "(request for one call)"
)

var (
	jwt       = agentNamed("a")
	everybody = request.AgentOf(identity.Anonymous())
)

// A verdictTest is a request with the outcome of each verdict.
type verdictTest struct {
	name string
	set  func(f *fixture) string
	want outcomes
}

var byLock = []verdictTest{
	{"pending", func(f *fixture) string { return f.asks(jwt, "mail:send", "") },
		outcomes{"approved": "approved", "allowed": "allowed", "confirmed": access, "declined": "declined", "revoked": none}},
	{"pending, all callers are one agent", func(f *fixture) string { return f.asks(everybody, "mail:send", "") },
		outcomes{"approved": "approved", "allowed": "(all callers of this gateway count as one agent)", "confirmed": access, "declined": "declined", "revoked": none}},
	{"disabled and approved", func(f *fixture) string {
		f.Gateway.Decide("fs:read_file", "disable")
		f.States.Refresh(f.T.Context())
		return f.asks(jwt, "fs:read_file", "")
	}, outcomes{"approved": "approved", "allowed": "allowed", "confirmed": access, "declined": "declined", "revoked": none}},
	{"disabled and not approved", func(f *fixture) string {
		f.Gateway.Decide("mail:send", "disable")
		return f.asks(jwt, "mail:send", "")
	}, outcomes{"approved": "(so it needs two decisions. Make them on its page, /admin/tools/mail/send)", "allowed": "allowed", "confirmed": access, "declined": "declined", "revoked": none}},
	{"blocked", func(f *fixture) string {
		f.Gateway.Decide("fs:read_file", "block")
		f.States.Refresh(f.T.Context())
		return f.asks(jwt, "fs:read_file", "")
	}, outcomes{"approved": "approved", "allowed": "(nothing was decided: somebody blocked this definition)", "confirmed": access, "declined": "declined", "revoked": none}},
	{"denied by a list", func(f *fixture) string { return f.asks(jwt, "fs:format_disk", "") },
		outcomes{"approved": "(mcpServers.fs.disabled_tools[0])", "allowed": noLock, "confirmed": access, "declined": "declined", "revoked": none}},
	{"denied by a policy", func(f *fixture) string { return f.asks(jwt, "mail:read_drafts", "") },
		outcomes{"approved": "(policy.cedar:1 no-drafts: Drafts are private. (rule no-drafts, contact #mail-owners))", "allowed": noLock, "confirmed": access, "declined": "declined", "revoked": none}},
	{"server disabled", func(f *fixture) string { return f.asks(jwt, "old:relic", "") },
		outcomes{"approved": "(mcpServers.old.enabled)", "allowed": noLock, "confirmed": access, "declined": "declined", "revoked": none}},
	{"server stopped", func(f *fixture) string {
		f.stop(stop.Target{Server: "mail"})
		return f.asks(jwt, "mail:send", "")
	}, outcomes{"approved": `(server "mail" is stopped by kim: it leaks: an operator undoes that at /admin/stop)`, "allowed": noLock, "confirmed": access, "declined": "declined", "revoked": none}},
	{"agent stopped", func(f *fixture) string {
		f.stop(stop.Target{Agent: jwt.ID})
		return f.asks(jwt, "mail:send", "")
	}, outcomes{"approved": "approved", "allowed": "(the agent is stopped by kim: it leaks)", "confirmed": access, "declined": "declined", "revoked": none}},
	{"unknown", func(f *fixture) string {
		f.Forbid(`forbid (principal, action, resource) when { principal.team == "x" };`)
		f.Sync()
		return f.asks(everybody, "mail:send", "")
	}, outcomes{"approved": "(the gateway does not know why it is locked)", "allowed": noLock, "confirmed": access, "declined": "declined", "revoked": none}},
	{"one call", func(f *fixture) string { return f.asks(jwt, "pay:send_money", `{"to":"kim","amount":5}`) },
		outcomes{"approved": oneCall, "allowed": oneCall, "confirmed": "confirmed", "declined": "declined", "revoked": none}},
	{"one call by an anonymous agent", func(f *fixture) string { return f.asks(everybody, "pay:send_money", `{"to":"kim","amount":5}`) },
		outcomes{"approved": oneCall, "allowed": oneCall, "confirmed": "confirmed", "declined": "declined", "revoked": none}},
	{"one call of a locked tool", func(f *fixture) string {
		f.Gateway.Decide("pay:send_money", "disable")
		f.States.Refresh(f.T.Context())
		return f.asks(jwt, "pay:send_money", `{}`)
	}, outcomes{"approved": oneCall, "allowed": oneCall, "confirmed": "(the tool itself is locked as disabled_by_user)", "declined": "declined", "revoked": none}},
}

var byState = []verdictTest{
	{"withdrawn", func(f *fixture) string {
		id := f.asks(jwt, "mail:send", "")
		f.by("kim", jwt.Subject)
		if _, err := f.service.Withdraw(f.ctx, id); err != nil {
			f.T.Fatal(err)
		}
		return id
	}, outcomes{"approved": "(the agent's user withdrew the request)", "allowed": "(withdrew)", "confirmed": "(withdrew)", "declined": "(withdrew)", "revoked": none}},
	{"expired", func(f *fixture) string {
		id := f.asks(jwt, "mail:send", "")
		f.Clock.Wait(request.OpenFor)
		return id
	}, outcomes{"approved": "(expired)", "allowed": "(expired)", "confirmed": "(expired)", "declined": "(expired)", "revoked": none}},
	{"changed", func(f *fixture) string {
		id := f.asks(jwt, "mail:send", "")
		f.Serve("mail", `{"name":"send","description":"Sends."}`)
		f.Sync()
		return id
	}, outcomes{"approved": "(its definition has changed)", "allowed": "(changed)", "confirmed": "(changed)", "declined": "(changed)", "revoked": none}},
	{"approved without this request", func(f *fixture) string {
		id := f.asks(jwt, "mail:send", "")
		f.Gateway.Decide("mail:send", "approve")
		f.States.Refresh(f.T.Context())
		return id
	}, outcomes{"approved": "(can call it already (ann decided about it without", "allowed": "(can call it already", "confirmed": "(can call it already", "declined": "(can call it already", "revoked": none}},
	{"for a recovered record", func(f *fixture) string {
		id, r := f.asks(jwt, "mail:send", ""), f.Record("mail:send")
		r.Loss = &approval.Loss{At: f.Clock.Now()}
		if _, err := f.Approvals.Put(f.T.Context(), r, nil); err != nil {
			f.T.Fatal(err)
		}
		return id
	}, outcomes{"approved": "approved", "allowed": "(a grant would not be valid now)", "confirmed": access, "declined": "declined", "revoked": none}},
	{"allowed", func(f *fixture) string { return f.after("mail:send", "", request.Allowed) },
		outcomes{"approved": "(ann decided about this request)", "allowed": "(ann decided", "confirmed": "(ann decided", "declined": "(ann decided", "revoked": "revoked"}},
	{"confirmed", func(f *fixture) string { return f.after("pay:send_money", "{}", request.Confirmed) },
		outcomes{"approved": "(ann decided", "allowed": "(ann decided", "confirmed": "(ann decided", "declined": "(ann decided", "revoked": "revoked"}},
	{"used", func(f *fixture) string {
		id := f.after("pay:send_money", "{}", request.Confirmed)
		if _, err := f.Requests().Use(f.T.Context(), id, f.Clock.Now(), f.Clock.Now().Add(time.Hour)); err != nil {
			f.T.Fatal(err)
		}
		return id
	}, outcomes{"approved": "(ann decided", "allowed": "(ann decided", "confirmed": "(ann decided", "declined": "(ann decided", "revoked": "(the request is used)"}},
	{"declined", func(f *fixture) string { return f.after("mail:send", "", request.Declined) },
		outcomes{"approved": "(ann decided", "allowed": "(ann decided", "confirmed": "(ann decided", "declined": "(ann decided", "revoked": none}},
}

func TestDecideRequest(t *testing.T) {
	for name, tests := range map[string][]verdictTest{"lock": byLock, "state": byState} {
		for _, test := range tests {
			t.Run(name+"/"+test.name, func(t *testing.T) { test.want.check(t, test.set) })
		}
	}
}

// after makes a request, gives it the verdict, and returns its id.
func (f *fixture) after(id, arguments string, v request.Verdict) string {
	f.T.Helper()
	made := f.asks(agentNamed("a"), id, arguments)
	if _, err := f.decides(made, v); err != nil {
		f.T.Fatal(err)
	}
	return made
}

func (f *fixture) stop(t stop.Target) {
	f.T.Helper()
	_, err := stop.NewStore(f.Approvals).Change(f.T.Context(), func(s stop.Stops) (stop.Stops, error) {
		return s.Add(stop.Stop{Target: t, Reason: "it leaks", By: "kim", At: f.Clock.Now()})
	})
	require.OK(f.T, err)
	f.States.Refresh(f.T.Context())
}

// A grant ends automatically, and by later decisions.
func TestGrantEnds(t *testing.T) {
	for _, test := range []struct {
		name, why string
		end       func(f *fixture)
	}{
		{"time", "its time has ended", func(f *fixture) { f.Clock.Wait(time.Hour) }},
		{"changed", "its definition has changed", func(f *fixture) {
			f.Serve("mail", `{"name":"send","description":"Sends."}`)
			f.Sync()
		}},
		{"gone", "its server no longer lists it", func(f *fixture) {
			f.Serve("mail", `{"name":"wipe"}`)
			f.Sync()
		}},
		{"disabled", "tester has decided about it since", func(f *fixture) { f.Gateway.Decide("mail:send", "disable") }},
		{"two people", "approving it now takes two people", func(f *fixture) {
			f.Put(config.Key, `{"mcpServers": {"mail": {"url": "https://mail.example.com/mcp", "approval": "manual"}}, "gateway": {"requests": true}, "review": {"four_eyes": "destructive"}}`)
		}},
		{"stopped", "a person has since stopped the agent, the item's server or everything", func(f *fixture) { f.stop(stop.Target{Server: "mail"}) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := withRequests(t)
			id := f.after("mail:send", "", request.Allowed)
			if r := f.request(id); r.State != decide.RequestAllowed || r.Locked != lock.None {
				t.Fatalf("allowed: %s, locked %s", r.State, r.Locked)
			}
			test.end(f)
			f.States.Refresh(t.Context())
			r := f.request(id)
			if r.State != decide.RequestOver || !strings.Contains(r.EndedBy, strings.TrimPrefix(test.why, "tester ")) {
				t.Errorf("the request is %s: %s", r.State, r.EndedBy)
			}
			list, _, err := f.service.Requests(f.ctx, false)
			if err != nil || len(list) != 1 || list[0].State != r.State {
				t.Errorf("listed as %+v, %v", list, err)
			}
			if ids, paused := f.grants(); len(ids) != len(paused) {
				t.Errorf("a grant is active: %q, paused %q", ids, paused)
			}
		})
	}
}

// If a person undoes an approval that a request caused, the request opens again after the time in
// which another process may still carry out the decision.
func TestRequestApprovalUndone(t *testing.T) {
	f := withRequests(t)
	id := f.after("mail:send", "", request.Approved)
	if _, err := f.service.Decide(f.ctx, gatewaytest.ID(t, "mail:send"), decide.Decision{Action: approval.ActionUndo, Rev: f.Record("mail:send").Rev}); err != nil {
		t.Fatal(err)
	}
	f.Clock.Wait(time.Minute)
	if r, err := f.decides(id, request.Declined); err != nil || r.State != decide.RequestDeclined {
		t.Errorf("declined after the undo: %s, %v", r.State, err)
	}
}

// A person needs the role approver, and the right to decide about the item's server.
func TestDecideRequestRights(t *testing.T) {
	for _, test := range []struct {
		name   string
		rights identity.Rights
		want   string
	}{
		{"nobody", identity.Rights{}, "this needs the role approver"},
		{"viewer", identity.Rights{Role: identity.Viewer}, "this needs the role approver"},
		{"approver of another server", identity.Rights{Role: identity.Approver, Servers: []string{"fs"}}, "this item is of mail"},
		{"approver of this server", identity.Rights{Role: identity.Approver, Servers: []string{"fs", "mail"}}, ""},
		{"approver of all", identity.Rights{Role: identity.Approver}, ""},
		{"operator", identity.Everything(), ""},
	} {
		for _, v := range []request.Verdict{request.Approved, request.Allowed, request.Declined, request.Revoked} {
			f := withRequests(t)
			id := f.asks(agentNamed("a"), "mail:send", "")
			if v == request.Revoked {
				if _, err := f.decides(id, request.Allowed); err != nil {
					t.Fatal(err)
				}
			}
			dec := f.as(id, v)
			_, err := f.service.DecideRequest(decide.WithActor(t.Context(), decide.Actor{Name: "sam", Rights: test.rights}), id, dec)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("%s: %s: %v", test.name, v, err)
			case test.want != "":
				if e := f.service.Explain(f.ctx, "test", err); err == nil || e.Status != http.StatusForbidden || !strings.Contains(e.Detail, test.want) {
					t.Errorf("%s: %s: %v", test.name, v, err)
				}
			}
		}
	}
}

// A decision is refused if it does not say what it is about, or names something else.
func TestDecideRequestAsSeen(t *testing.T) {
	f := withRequests(t)
	access, call := f.asks(agentNamed("a"), "mail:send", ""), f.asks(agentNamed("a"), "pay:send_money", `{"amount":5}`)
	other := f.Record("mail:wipe").CurrentHash
	for _, test := range []struct {
		name, id, want string
		change         func(*decide.RequestDecision)
	}{
		{"no hash", access, "does not have the hash", func(d *decide.RequestDecision) { d.Hash = "" }},
		{"another hash", access, "the definition changed since you saw it", func(d *decide.RequestDecision) { d.Hash = other }},
		{"another tool", access, "not about the tool that you saw", func(d *decide.RequestDecision) { d.Tool = "mail:wipe" }},
		{"another agent", access, "not from the agent that you saw", func(d *decide.RequestDecision) { d.Agent = agentNamed("b").Key() }},
		{"other arguments", call, "the arguments differ", func(d *decide.RequestDecision) { d.Args = request.HashArgs([]byte(`{"amount":6}`)) }},
		{"no arguments", call, "the arguments differ", func(d *decide.RequestDecision) { d.Args = "" }},
		{"no verdict", access, "takes the verdict approved", func(d *decide.RequestDecision) { d.Verdict = "" }},
		{"no reason", access, "the reason is missing", func(d *decide.RequestDecision) { d.Verdict, d.Reason = request.Declined, " \n" }},
		{"long reason", access, "at most 500 characters", func(d *decide.RequestDecision) { d.Reason = strings.Repeat("ä", 501) }},
		{"no minutes", access, "want 1 to 43200", func(d *decide.RequestDecision) { d.Verdict, d.Minutes = request.Allowed, 0 }},
		{"too many minutes", access, "want 1 to 43200", func(d *decide.RequestDecision) { d.Verdict, d.Minutes = request.Allowed, 43_201 }},
	} {
		v := request.Approved
		if test.id == call {
			v = request.Confirmed
		}
		dec := f.as(test.id, v)
		test.change(&dec)
		_, err := f.service.DecideRequest(f.ctx, test.id, dec)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
		if r := f.request(test.id); r.State != decide.RequestOpen {
			t.Errorf("%s: the request is %s", test.name, r.State)
		}
	}
	for _, id := range []string{"", "R-", "R-00000000", "../x", "R-7KQ2M4XD\x00"} {
		_, err := f.service.DecideRequest(f.ctx, id, f.as(access, request.Approved))
		if e := f.service.Explain(f.ctx, "test", err); e.Status != http.StatusNotFound {
			t.Errorf("%q: %v", id, err)
		}
	}
}
