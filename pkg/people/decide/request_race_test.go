package decide_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

// at returns a context of a person with that name.
func (f *fixture) at(name string) context.Context {
	return decide.WithActor(f.T.Context(), decide.Actor{Name: name, Rights: identity.Everything()})
}

// An attempt is one of several simultaneous decisions.
type attempt struct {
	id  string
	dec decide.RequestDecision
	r   decide.Request
	err error
}

// together makes the decisions at the same time, each by another person.
func (f *fixture) together(all []attempt) {
	var start, done sync.WaitGroup
	start.Add(1)
	for n := range all {
		done.Add(1)
		go func() {
			defer done.Done()
			start.Wait()
			all[n].r, all[n].err = f.service.DecideRequest(f.at(fmt.Sprint("person-", n)), all[n].id, all[n].dec)
		}()
	}
	start.Done()
	done.Wait()
}

// winner returns the index of the one decision that was carried out. The others must be refused.
func winner(t *testing.T, f *fixture, all []attempt) (won int) {
	t.Helper()
	won = -1
	for n, one := range all {
		if one.err == nil {
			if won >= 0 {
				t.Fatalf("%s by %d and %s by %d were both carried out", all[won].dec.Verdict, won, one.dec.Verdict, n)
			}
			won = n
			continue
		}
		if e := f.service.Explain(f.ctx, "test", one.err); e.Status != http.StatusConflict || !strings.Contains(e.Detail, "nothing ") {
			t.Errorf("%s: refused with %d %s", one.dec.Verdict, e.Status, e.Detail)
		}
	}
	if won < 0 {
		t.Fatalf("no decision was carried out; the first error: %v", all[0].err)
	}
	return won
}

var states = map[request.Verdict]decide.RequestState{
	request.Approved: decide.RequestApproved, request.Allowed: decide.RequestAllowed, request.Declined: decide.RequestDeclined,
}

// Open requests of several agents for the same definition are joined: one decision counts for all.
// This is also true if several people decide at the same time.
func TestRaceOnJoinedRequests(t *testing.T) {
	for round := range 8 {
		f := withRequests(t)
		var ids []string
		var all []attempt
		for n := range 5 {
			ids = append(ids, f.asks(agentNamed(fmt.Sprint("agent-", n)), "mail:send", ""))
		}
		for n, id := range ids {
			all = append(all, attempt{id: id, dec: f.as(id, []request.Verdict{request.Approved, request.Declined}[(n+round)%2])})
		}
		f.together(all)
		won := winner(t, f, all)
		for _, id := range ids {
			r := f.request(id)
			if r.State != states[all[won].dec.Verdict] || r.Decided.By != fmt.Sprint("person-", won) || r.Decided.Request != id {
				t.Errorf("person-%d said %s, and %s is %s by %s", won, all[won].dec.Verdict, id, r.State, r.Decided.By)
			}
		}
		if approved := f.Record("mail:send").State == approval.Approved; approved != (all[won].dec.Verdict == request.Approved) {
			t.Errorf("after %s the record is approved: %v", all[won].dec.Verdict, approved)
		}
		if len(all[won].r.Unsettled) > 0 || len(f.events()) != len(ids) {
			t.Errorf("unsettled %q, events %q", all[won].r.Unsettled, f.events())
		}
		// The one notice names all requests, so each earlier notice has its outcome.
		var named []string
		for _, e := range f.told.events {
			named = append(append(named, e.Request), e.Also...)
		}
		if slices.Sort(named); !slices.Equal(named, slices.Sorted(slices.Values(ids))) {
			t.Errorf("the notices name %q, want %q", named, ids)
		}
		if got := f.told.take(); len(got) != 1 {
			t.Errorf("notices %q, want one", got)
		}
	}
}

// redefine changes the definition of mail:send once, during a decision.
func (f *fixture) redefine() func() {
	return sync.OnceFunc(func() {
		f.Serve("mail", `{"name":"send","description":"Sends to anybody."}`, `{"name":"wipe"}`, `{"name":"read_drafts"}`)
		f.Sync()
	})
}

// A decision has no effect if the definition changes before the decision is stored completely.
func TestDecideWhileDefinitionChanges(t *testing.T) {
	for _, v := range []request.Verdict{request.Approved, request.Allowed} {
		// the definition changes at the write of the request's decision, or late, of the record
		for _, late := range []bool{false, true} {
			f := withRequests(t)
			id := f.asks(agentNamed("a"), "mail:send", "")
			dec, change := f.as(id, v), f.redefine()
			old := f.Record("mail:send").CurrentHash
			if late {
				f.Approvals.OnPut = func(_ context.Context, r approval.Record) (bool, error) {
					if r.By == "ann" {
						f.Approvals.OnPut = nil
						change()
					}
					return false, nil
				}
			} else {
				f.Approvals.Documents.OnPut = documenttest.PutOf("GRANT#", func() (bool, error) { change(); return false, nil })
			}
			r, err := f.service.DecideRequest(f.ctx, id, dec)
			changed := v == request.Approved || !late // allowing writes no record
			if v == request.Approved && (err == nil || !strings.Contains(err.Error(), "nothing ")) {
				t.Errorf("%s, late %v: %+v, %v", v, late, r, err)
			}
			now := f.Record("mail:send")
			if changed == (now.CurrentHash == old) || now.ApprovedHash != "" {
				t.Errorf("%s, late %v: the record is %+v", v, late, now)
			}
			f.States.Refresh(t.Context())
			want := map[bool]decide.RequestState{true: decide.RequestChanged, false: decide.RequestAllowed}[changed]
			if v == request.Allowed && changed {
				want = decide.RequestOver
			}
			if got := f.request(id); got.State != want {
				t.Errorf("%s, late %v: the request is %s, want %s", v, late, got.State, want)
			}
		}
	}
}

// If the write of an approval fails, the gateway removes the decision from the request. If it
// cannot remove the decision, the tool's record shows later whether the tool was approved.
func TestApproveFails(t *testing.T) {
	boom := errors.New("boom")
	for _, test := range []struct {
		name          string
		kept, noTake  bool
		now, later    decide.RequestState
		decidedByThen bool
	}{
		{"not written", false, false, decide.RequestOpen, decide.RequestOpen, false},
		{"written, and the answer lost", true, false, decide.RequestCallable, decide.RequestCallable, true},
		{"written, the answer lost, and the claim stays", true, true, decide.RequestApproved, decide.RequestApproved, true},
		{"not written, and the claim stays", false, true, decide.RequestOpen, decide.RequestOpen, false},
	} {
		f := withRequests(t)
		id := f.asks(agentNamed("a"), "mail:send", "")
		dec := f.as(id, request.Approved)
		f.Approvals.OnPut = func(context.Context, approval.Record) (bool, error) { return test.kept, boom }
		puts := 0
		f.Approvals.Documents.OnPut = documenttest.PutOf("GRANT#", func() (bool, error) {
			if puts++; puts > 1 && test.noTake {
				return false, boom
			}
			return false, nil
		})
		if _, err := f.service.DecideRequest(f.ctx, id, dec); !errors.Is(err, boom) {
			t.Errorf("%s: %v", test.name, err)
		}
		f.Approvals.OnPut, f.Approvals.Documents.OnPut = nil, nil
		f.States.Refresh(t.Context())
		if got := f.request(id); got.State != test.now {
			t.Errorf("%s: the request is %s, want %s", test.name, got.State, test.now)
		}
		if test.noTake && !test.kept {
			_, err := f.decides(id, request.Declined)
			f.says(err, http.StatusConflict, "ann is deciding about this request now")
		}
		f.Clock.Wait(time.Minute)
		if got := f.request(id); got.State != test.later {
			t.Errorf("%s: later the request is %s, want %s", test.name, got.State, test.later)
		}
		if _, err := f.decides(id, request.Declined); (err != nil) != test.decidedByThen {
			t.Errorf("%s: a second decision: %v", test.name, err)
		}
	}
}

// If a decline could not be stored for a joined request, the answer says so, and that request
// stays open.
func TestDeclinePartly(t *testing.T) {
	f := withRequests(t)
	one, other := f.asks(agentNamed("a"), "mail:send", ""), f.asks(agentNamed("b"), "mail:send", "")
	dec := f.as(one, request.Declined)
	f.Approvals.Documents.OnPut = documenttest.PutOf("GRANT#"+agentNamed("b").Key(), func() (bool, error) { return false, errors.New("boom") })
	r, err := f.service.DecideRequest(f.ctx, one, dec)
	if err != nil || r.State != decide.RequestDeclined || !slices.Equal(r.Unsettled, []string{other}) {
		t.Errorf("declined: %+v, %v", r, err)
	}
	if got := f.request(other); got.State != decide.RequestOpen {
		t.Errorf("the other request is %s", got.State)
	}
	f.Approvals.Documents.OnPut = nil
	if r, err := f.decides(other, request.Declined); err != nil || r.State != decide.RequestDeclined {
		t.Errorf("declined again: %+v, %v", r, err)
	}
}

// If the approval of a definition takes two people, the first proposes it, and the second completes
// it.
func TestApproveRequestByTwo(t *testing.T) {
	f := withFourEyes(t)
	id := f.asks(agentNamed("a"), "db:drop", "")
	f.by("kim", "")
	_, err := f.decides(id, request.Approved)
	f.says(err, http.StatusForbidden, "takes two people")
	f.by("kim", "sub-1")
	_, err = f.decides(id, request.Allowed)
	f.says(err, http.StatusConflict, "takes two people, so one person cannot allow it to one agent")
	r, err := f.decides(id, request.Approved)
	if err != nil || r.State != decide.RequestOpen || r.Proposed != "kim" || !r.TakesTwo {
		t.Errorf("after the first: %+v, %v", r, err)
	}
	_, err = f.decides(id, request.Approved)
	f.says(err, http.StatusConflict, "you approved this definition already")
	if r := f.request(id); r.State != decide.RequestOpen {
		t.Errorf("the request is %s after the first person tried again", r.State)
	}
	f.by("lee", "sub-2")
	if r, err := f.decides(id, request.Approved); err != nil || r.State != decide.RequestApproved || r.Decided.By != "lee" {
		t.Errorf("after the second: %+v, %v", r, err)
	}
	if got := f.events(); len(got) != 2 {
		t.Errorf("events %q", got)
	}
	if _, err := f.service.Tool(f.ctx, gatewaytest.ID(t, "db:drop")); err != nil {
		t.Error(err)
	}
}
