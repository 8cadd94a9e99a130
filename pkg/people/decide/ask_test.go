package decide_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func newSealer() *seal.Sealer {
	key := bytes.Repeat([]byte("k"), seal.MinKey)
	return seal.New(func(context.Context) (seal.Keys, error) { return seal.Keys{Current: key}, nil })
}

// code returns the sealed code of a link with which a person requests the current definition of a
// tool.
func (f *fixture) code(a request.Agent, id string) string {
	f.T.Helper()
	v := f.States.Refresh(f.T.Context()).View(f.Agent)
	i, ok := v.Find(gatewaytest.ID(f.T, id))
	if !ok {
		f.T.Fatalf("the catalog has no %s", id)
	}
	text, err := request.SealCode(f.T.Context(), f.Decide.Sealer, request.Code{Agent: a, Item: v.ID(i), Hash: v.Tool(i).Definition.Hash, Status: v.Status(i)}, f.Clock.Now())
	require.OK(f.T, err)
	return text
}

// person makes the agent's user, who has no role, the actor of the next calls of the service.
func (f *fixture) person(a request.Agent) {
	f.ctx = decide.WithActor(f.T.Context(), decide.Actor{Name: "kim", Subject: a.Subject})
}

// says checks the status and the text of a refusal.
func (f *fixture) says(err error, status int, want string) {
	f.T.Helper()
	e := f.service.Explain(f.ctx, "test", err)
	if err == nil || e.Status != status || !strings.Contains(e.Detail, want) {
		f.T.Errorf("answered %d %s, want %d %s", e.Status, e.Detail, status, want)
	}
}

func TestAsk(t *testing.T) {
	f, a := withRequests(t), agentNamed("a")
	code := f.code(a, "mail:send")
	f.person(a)
	before, err := f.service.Asking(f.ctx, code)
	if err != nil || before.ID != "" || !before.Person || before.Decides || before.Callable || before.Elsewhere || before.Locked != lock.PendingApproval || before.State != decide.RequestOpen {
		t.Fatalf("before: %+v, %v", before, err)
	}
	if list, _, err := f.service.Requests(f.ctx, false); err != nil || len(list) != 0 {
		t.Fatalf("after the link was opened, the requests are %v, %v; want none", list, err)
	}
	made, err := f.service.Ask(f.ctx, code, decide.Want{Why: " the report\n", Minutes: 60})
	if err != nil || made.ID == "" || made.By != "kim" || made.Why != "the report" || made.Minutes != 60 {
		t.Fatalf("asked: %+v, %v", made, err)
	}
	if got := f.told.take(); len(got) != 1 || got[0] != "request [mail:send] a" {
		t.Errorf("the notices are %q", got)
	}
	again, err := f.service.Ask(f.ctx, code, decide.Want{Why: "the second report"})
	if err != nil || again.ID != made.ID || again.Why != "the second report" || again.Minutes != 0 {
		t.Errorf("asked again: %+v, %v", again, err)
	}
	if got := f.told.take(); len(got) != 0 {
		t.Errorf("a second notice %q", got)
	}
	if look, err := f.service.Asking(f.ctx, code); err != nil || look.ID != made.ID {
		t.Errorf("the link opens %+v, %v", look, err)
	}
	withdrawn, err := f.service.Withdraw(f.ctx, code)
	if err != nil || withdrawn.State != decide.RequestWithdrawn {
		t.Errorf("withdrawn: %+v, %v", withdrawn, err)
	}
	_, err = f.service.Withdraw(f.ctx, made.ID)
	f.says(err, http.StatusConflict, "only an open request can be withdrawn")
	_, err = f.service.Ask(f.ctx, made.ID, decide.Want{})
	f.says(err, http.StatusConflict, "this request is withdrawn")
	events := f.events()
	if want := []string{"kim request mail:send agent:a " + made.ID, "kim request mail:send agent:a " + made.ID, "kim request_withdrawn mail:send agent:a " + made.ID}; !slices.Equal(events, want) {
		t.Errorf("events %q, want %q", events, want)
	}
}

// events returns the recorded events in short form, oldest first.
func (f *fixture) events() (out []string) {
	f.T.Helper()
	for _, l := range f.Deeds.Lines() {
		if l.Request != "" {
			out = append(out, strings.Join([]string{l.Actor, l.Action, l.Tool, l.Subject, l.Request}, " "))
		}
	}
	return out
}

func TestAskRefused(t *testing.T) {
	a := agentNamed("a")
	for _, test := range []struct {
		name, tool, want string
		status           int
		set              func(f *fixture, code string) string
	}{
		{"somebody else", "mail:send", "only the agent's user may do this", http.StatusForbidden, func(f *fixture, code string) string {
			f.person(agentNamed("b"))
			return code
		}},
		{"an operator", "mail:send", "only the agent's user may do this", http.StatusForbidden, func(f *fixture, code string) string {
			f.by("ann", "")
			return code
		}},
		{"forged", "mail:send", "is not valid", http.StatusNotFound, func(_ *fixture, code string) string { return code[:len(code)-1] + "A" + code[len(code)-1:] }},
		{"no code", "mail:send", "is not valid", http.StatusNotFound, func(*fixture, string) string { return "R-7KQ2" }},
		{"expired", "mail:send", "is not valid", http.StatusNotFound, func(f *fixture, code string) string {
			f.Clock.Wait(25 * time.Hour)
			return code
		}},
		{"callable", "mail:send", "the agent can call it already", http.StatusConflict, func(f *fixture, code string) string {
			f.Gateway.Decide("mail:send", "approve")
			f.States.Refresh(f.T.Context())
			return code
		}},
		{"changed", "mail:send", "changed since the link was made", http.StatusConflict, func(f *fixture, code string) string {
			f.Serve("mail", `{"name":"send","description":"Sends."}`)
			f.Sync()
			return code
		}},
		{"gone", "mail:send", "its server no longer lists it", http.StatusConflict, func(f *fixture, code string) string {
			f.Serve("mail", `{"name":"wipe"}`)
			f.Sync()
			return code
		}},
		{"declined", "mail:send", "ann declined this", http.StatusConflict, func(f *fixture, code string) string {
			id := f.asks(a, "mail:send", "")
			f.by("ann", "")
			if _, err := f.decides(id, request.Declined); err != nil {
				f.T.Fatal(err)
			}
			f.person(a)
			return code
		}},
		{"too many", "mail:send", "the agent has 10 open requests", http.StatusConflict, func(f *fixture, code string) string {
			for range 10 {
				f.asks(a, "pay:send_money", `{"n":"`+request.NewID()+`"}`)
			}
			return code
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := withRequests(t)
			code := f.code(a, test.tool)
			f.person(a)
			code = test.set(f, code)
			_, err := f.service.Ask(f.ctx, code, decide.Want{Why: "please"})
			f.says(err, test.status, test.want)
		})
	}
	f := withRequests(t)
	f.person(a)
	_, err := f.service.Ask(f.ctx, f.code(a, "mail:send"), decide.Want{Why: strings.Repeat("ä", 501)})
	f.says(err, http.StatusUnprocessableEntity, "at most 500 characters")
	_, err = f.service.Ask(f.ctx, f.code(a, "mail:send"), decide.Want{Minutes: 43_201})
	f.says(err, http.StatusUnprocessableEntity, "minutes: want 1 to 43200")
	f.Decide.Sealer = nil
	f.Open()
	_, err = f.Console.Service.Asking(f.ctx, "whatever")
	f.says(err, http.StatusNotFound, "is not valid")
}

// The agent's user can change and withdraw a request that the agent made.
func TestAskOnRequest(t *testing.T) {
	f, a := withRequests(t), agentNamed("a")
	id := f.asks(a, "mail:send", "")
	f.person(a)
	got, err := f.service.Ask(f.ctx, strings.ToLower(id), decide.Want{Why: "for my boss", Minutes: 5})
	if err != nil || got.ID != id || got.Why != "for my boss" || got.Note != "for the report" || got.By != "" || got.Minutes != 5 {
		t.Errorf("%+v, %v", got, err)
	}
	call := f.asks(a, "pay:send_money", `{"amount":5}`)
	if _, err := f.service.Withdraw(f.ctx, call); err != nil {
		t.Fatal(err)
	}
	if kept, err := f.Requests().Arguments(t.Context(), a.Key(), call); err == nil {
		t.Errorf("the arguments are kept: %s", kept)
	}
	f.person(agentNamed("b"))
	_, err = f.service.Withdraw(f.ctx, id)
	f.says(err, http.StatusForbidden, "only the agent's user")
}

// A person who has no role and is not the agent's user sees no notes, arguments or subjects.
func TestAskingSeenBy(t *testing.T) {
	f, a := withRequests(t), agentNamed("a")
	call, denied := f.asks(a, "pay:send_money", `{"amount":5}`), f.asks(a, "mail:read_drafts", "")
	for _, test := range []struct {
		who          string
		actor        decide.Actor
		text, inside bool
	}{
		{"the person", decide.Actor{Name: "kim", Subject: a.Subject}, true, false},
		{"a viewer", decide.Actor{Name: "sam", Rights: identity.Rights{Role: identity.Viewer}}, true, true},
		{"somebody", decide.Actor{Name: "eve", Subject: "https://login.example.com eve"}, false, false},
		{"somebody without a subject", decide.Actor{Name: "eve"}, false, false},
	} {
		ctx := decide.WithActor(t.Context(), test.actor)
		one, err := f.service.Asking(ctx, call)
		require.OK(t, err)
		if (one.Note != "") != test.text || (one.Arguments != nil) != test.text || (one.Agent.Subject != "") != test.text {
			t.Errorf("%s sees %+v", test.who, one)
		}
		if one.Person != (test.who == "the person") || one.Decides {
			t.Errorf("%s: person %v, decides %v", test.who, one.Person, one.Decides)
		}
		rule, err := f.service.Asking(ctx, denied)
		if err != nil || (rule.Rule != "") != test.inside || (rule.Exempt != "") != test.inside {
			t.Errorf("%s sees %+v, %v", test.who, rule, err)
		}
	}
	anonymous := request.AgentOf(identity.Anonymous())
	id := f.asks(anonymous, "mail:send", "")
	if one, err := f.service.Asking(decide.WithActor(t.Context(), decide.Actor{Name: "eve"}), id); err != nil || one.Person {
		t.Errorf("somebody counts as the user of an anonymous agent: %+v, %v", one, err)
	}
}

// Nobody who reads a request sees the server's address. Strangers do not see who made a request.
func TestRequestsSayNoAddress(t *testing.T) {
	f, a := withRequests(t), agentNamed("a")
	f.person(a)
	made, err := f.service.Ask(f.ctx, f.code(a, "mail:send"), decide.Want{Why: "please"})
	require.OK(t, err)
	f.by("ann", "")
	if _, err := f.decides(made.ID, request.Allowed); err != nil {
		t.Fatal(err)
	}
	for name, look := range map[string]func() (any, error){
		"an operator": func() (any, error) { return f.service.Request(f.ctx, made.ID) },
		"all of them": func() (any, error) { list, _, err := f.service.Requests(f.ctx, false); return list, err },
		"a stranger": func() (any, error) {
			f.person(agentNamed("b"))
			return f.service.Asking(f.ctx, made.ID)
		},
	} {
		shown, err := look()
		text, _ := json.Marshal(shown)
		if err != nil || strings.Contains(string(text), `"url"`) || name == "a stranger" && strings.Contains(string(text), `"by":"kim"`) {
			t.Errorf("%s: %s %v", name, text, err)
		}
		f.by("ann", "")
	}
}
