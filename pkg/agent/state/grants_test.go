package state_test

import (
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A granted item is callable for the agent with the grant, and no other item is.
func TestWith(t *testing.T) {
	h := withTools(t)
	v := h.States.Load(t.Context()).View(anyone())
	send := tool.ID{Server: "mail", Name: "send"}
	i, ok := v.Find(send)
	if !ok || v.Status(i) != lock.PendingApproval {
		t.Fatalf("mail:send is %v, %q", ok, v.Status(i))
	}
	now := h.Clock.Now()
	record := v.Record(i)
	grant := func(change func(*request.Decision)) request.Granted {
		d := request.Decision{
			Request: request.NewID(), Verdict: request.Allowed, Server: send.Server, Tool: send.Name, Hash: v.Tool(i).Definition.Hash,
			By: "kim", At: now, Ends: now.Add(time.Hour), Against: record.DecidedAt, URL: "https://mail.example.com/mcp",
		}
		change(&d)
		return request.Granted{Agent: request.Agent{Way: "token", ID: anyone().ID}, List: []request.Decision{d}}
	}
	with := v.With(grant(func(*request.Decision) {}), now)
	if with.Status(i) != lock.None || !with.Callable().Has(i) || with.Callable().Len() != v.Callable().Len()+1 {
		t.Errorf("granted: %q, %d callable of %d", with.Status(i), with.Callable().Len(), v.Callable().Len())
	}
	if v.Status(i) != lock.PendingApproval {
		t.Error("the view of other agents changed")
	}
	for name, change := range map[string]func(*request.Decision){
		"another definition": func(d *request.Decision) { d.Hash = "other" },
		"another tool":       func(d *request.Decision) { d.Tool = "none" },
		"over":               func(d *request.Decision) { d.Ends = now },
		"decided since":      func(d *request.Decision) { d.Against = now.Add(-time.Hour) },
		"another server":     func(d *request.Decision) { d.URL = "https://elsewhere.example.com/mcp" },
	} {
		if with := v.With(grant(change), now); with.Status(i) != lock.PendingApproval || with.Callable().Len() != v.Callable().Len() {
			t.Errorf("%s: status = %q", name, with.Status(i))
		}
	}
}

// A grant overrides a person's earlier disabling. If a store was restored to an older state, a
// later disabling is missing, and the grant must not apply. This is also true if a person decided
// again after the restore, so that the record is newer than the grant.
func TestGrantInALostStore(t *testing.T) {
	h := withTools(t)
	i, _ := h.States.Load(t.Context()).View(anyone()).Find(tool.ID{Server: "mail", Name: "send"})
	called := func(d request.Decision) lock.Status {
		v := h.States.Load(t.Context()).View(anyone())
		r, err := h.Approvals.Get(t.Context(), v.ID(i))
		require.OK(t, err)
		g := request.Granted{Agent: request.Agent{Way: "token", ID: anyone().ID}, List: []request.Decision{d}}
		return lock.Classify(v.FactsNow(i, &r, stop.Stops{}, g, h.Clock.Now()))
	}
	grant := func() request.Decision {
		v := h.States.Load(t.Context()).View(anyone())
		r, err := h.Approvals.Get(t.Context(), v.ID(i))
		require.OK(t, err)
		return request.Decision{
			Request: request.NewID(), Verdict: request.Allowed, Server: r.Server, Tool: r.Tool, Hash: r.CurrentHash, By: "kim",
			At: h.Clock.Now(), Ends: h.Clock.Now().Add(24 * time.Hour), Against: r.DecidedAt, URL: "https://mail.example.com/mcp",
		}
	}
	yesterdays, yesterday := grant(), h.Approvals.Copy()
	if got := called(yesterdays); got != lock.None {
		t.Fatalf("status of a call with a grant = %q", got)
	}
	h.Clock.Wait(time.Minute)
	h.Decide("mail:send", "disable")
	todays := grant()
	if old, now := called(yesterdays), called(todays); old != lock.DisabledByUser || now != lock.None {
		t.Errorf("disabled since: status %q with the older grant, %q with the newer grant",
			old, now)
	}
	h.Clock.Wait(time.Minute)
	h.publish(listing{"files": {"read": "Read a file.", "write": "Write a file."}, "mail": {"send": "Send a mail."}})
	h.Clock.Wait(time.Minute)
	h.Approvals = yesterday
	h.States = state.New(h.Objects, yesterday, &state.Options{Now: h.Clock.Now})
	for _, then := range []string{"set back", "set back, then decided again"} {
		if then != "set back" {
			h.Decide("mail:send", "disable")
			h.Decide("mail:send", "enable")
			h.Clock.Wait(time.Minute)
		}
		if old, now := called(yesterdays), called(todays); old == lock.None || now == lock.None {
			t.Errorf("%s: status %q with the older grant, %q with the newer grant", then, old, now)
		}
	}
}
