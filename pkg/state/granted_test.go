package state_test

import (
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/request"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// What was granted is found as callable by who it was granted to, and nothing else is.
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
		t.Error("the view of others changed")
	}
	for name, change := range map[string]func(*request.Decision){
		"another definition": func(d *request.Decision) { d.Hash = "other" },
		"another tool":       func(d *request.Decision) { d.Tool = "none" },
		"over":               func(d *request.Decision) { d.Ends = now },
		"one call":           func(d *request.Decision) { d.Verdict, d.Args = request.Confirmed, "x" },
		"declined":           func(d *request.Decision) { d.Verdict = request.Declined },
		"decided since":      func(d *request.Decision) { d.Against = now.Add(-time.Hour) },
		"another server":     func(d *request.Decision) { d.URL = "https://elsewhere.example.com/mcp" },
	} {
		if with := v.With(grant(change), now); with.Status(i) != lock.PendingApproval || with.Callable().Len() != v.Callable().Len() {
			t.Errorf("%s: it is %q", name, with.Status(i))
		}
	}
}
