package request_test

import (
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request/requesttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop/stoptest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const address = "https://mcp.example.com/mcp"

// call is the hash of the arguments of the call that is confirmed.
var call = requesttest.OneCall("git", "push", `{"a":1}`).Args

// A world is the state at the time of a call: the grants of an agent, and the tool, its record and
// the stops.
type world struct {
	g   request.Granted
	now request.Now
}

// opened returns a world in which a person made a grant a minute ago. verdict is allowed or
// confirmed.
func opened(t *testing.T, verdict request.Verdict) world {
	t.Helper()
	r := requesttest.To("git", "push")
	if verdict == request.Confirmed {
		r.Args = call
	}
	_, r, _ = add(t, request.List{Agent: ci}, r, request.Granted{}, noon.Add(-time.Hour))
	record := &approval.Record{Server: "git", Tool: "push", State: approval.Pending, CurrentHash: requesttest.Hash, Current: []byte("{}"), URL: address, Rev: 3}
	record.DecidedAt = noon.Add(-24 * time.Hour)
	d := request.Decide(r, verdict, 30, "kim", "", noon)
	d.Against, d.URL = record.DecidedAt, address
	g, err := request.Granted{Agent: ci}.Add(d, false, noon)
	require.OK(t, err)
	return world{g, request.Now{Item: r.Item(), Hash: r.Hash, URL: address, Agent: ci.ID, Record: record, Time: noon.Add(time.Minute)}}
}

// holds reports whether the grant allows every call, and whether it confirms the call with the
// arguments call.
func (w world) holds() (allowed, confirmed bool) {
	_, allowed = w.g.Allows(w.now)
	return allowed, len(w.g.Confirms(w.now, call)) > 0
}

// record replaces the tool's record with the record after a decision.
func (w *world) record(t *testing.T, decide func(approval.Record) (approval.Record, approval.Entry, error)) {
	t.Helper()
	next, _, err := decide(*w.now.Record)
	require.OK(t, err)
	w.now.Record = &next
}

// changes has events between a decision and a call. Each of them ends the grant.
var changes = map[string]func(*testing.T, *world){
	"another definition":                       func(_ *testing.T, w *world) { w.now.Hash = "b2" },
	"no definition":                            func(_ *testing.T, w *world) { w.now.Hash = "" },
	"a definition without a hash":              func(_ *testing.T, w *world) { w.now.Hash, w.g.List[0].Hash, w.now.Record.CurrentHash = "", "", "" },
	"another server":                           func(_ *testing.T, w *world) { w.now.Item.Server = "github" },
	"another tool":                             func(_ *testing.T, w *world) { w.now.Item.Name = "pull" },
	"a prompt of the same name":                func(_ *testing.T, w *world) { w.now.Item.Kind = tool.Prompt },
	"another agent":                            func(_ *testing.T, w *world) { w.now.Agent = "token:cd" },
	"no agent":                                 func(_ *testing.T, w *world) { w.now.Agent, w.g.Agent = "", request.Agent{} },
	"the server moved":                         func(_ *testing.T, w *world) { w.now.URL = "https://mcp.example.net/mcp" },
	"the server has no address":                func(_ *testing.T, w *world) { w.now.URL = "" },
	"the grant has no address":                 func(_ *testing.T, w *world) { w.g.List[0].URL = "" },
	"the end of the grant":                     func(_ *testing.T, w *world) { w.now.Time = w.g.List[0].Ends },
	"long after the end":                       func(_ *testing.T, w *world) { w.now.Time = w.g.List[0].Ends.Add(24 * time.Hour) },
	"no end":                                   func(_ *testing.T, w *world) { w.g.List[0].Ends = time.Time{} },
	"the clock was set back":                   func(_ *testing.T, w *world) { w.now.Time = noon.Add(-6 * time.Minute) },
	"no record":                                func(_ *testing.T, w *world) { w.now.Record = nil },
	"no record, neither now nor at the grant":  func(_ *testing.T, w *world) { w.now.Record, w.g.List[0].Against = nil, time.Time{} },
	"a record that a sync made after a loss":   func(_ *testing.T, w *world) { w.now.Record.Loss = &approval.Loss{} },
	"a record of a newer program":              func(_ *testing.T, w *world) { w.now.Record.Format = approval.Format + 1 },
	"a sync saw another definition":            func(_ *testing.T, w *world) { w.now.Record.CurrentHash = "b2" },
	"an older state of the store was restored": func(_ *testing.T, w *world) { w.now.Record.DecidedAt = w.now.Record.DecidedAt.Add(-1) },
	"the record has no decision any more":      func(_ *testing.T, w *world) { w.now.Record.DecidedAt = time.Time{} },
	"disabled": func(t *testing.T, w *world) {
		w.record(t, func(r approval.Record) (approval.Record, approval.Entry, error) {
			return approval.Disable(r, approval.Author{Actor: "ada"}, noon.Add(time.Second))
		})
	},
	"disabled and enabled": func(t *testing.T, w *world) {
		w.record(t, func(r approval.Record) (approval.Record, approval.Entry, error) {
			return approval.Disable(r, approval.Author{Actor: "ada"}, noon.Add(time.Second))
		})
		w.record(t, func(r approval.Record) (approval.Record, approval.Entry, error) {
			return approval.Enable(r, approval.Author{Actor: "ada"}, noon.Add(2*time.Second))
		})
	},
	"disabled by a process with a slow clock": func(t *testing.T, w *world) {
		w.record(t, func(r approval.Record) (approval.Record, approval.Entry, error) {
			return approval.Disable(r, approval.Author{Actor: "ada"}, noon.Add(-time.Hour))
		})
	},
	"blocked": func(t *testing.T, w *world) {
		w.record(t, func(r approval.Record) (approval.Record, approval.Entry, error) {
			return approval.Block(r, requesttest.Hash, approval.Author{Actor: "ada"}, noon.Add(time.Second))
		})
	},
	"blocked, but the time of the decision is the same": func(t *testing.T, w *world) {
		decided := w.now.Record.DecidedAt
		w.record(t, func(r approval.Record) (approval.Record, approval.Entry, error) {
			return approval.Block(r, requesttest.Hash, approval.Author{Actor: "ada"}, noon.Add(time.Second))
		})
		w.now.Record.DecidedAt = decided
	},
	"approved": func(t *testing.T, w *world) {
		w.record(t, func(r approval.Record) (approval.Record, approval.Entry, error) {
			return approval.Approve(r, requesttest.Hash, approval.Author{Actor: "ada"}, noon.Add(time.Second))
		})
	},
	"the server is stopped":                           func(t *testing.T, w *world) { w.stopped(t, stop.Target{Server: "git"}, time.Second, false) },
	"the server was stopped for a moment":             func(t *testing.T, w *world) { w.stopped(t, stop.Target{Server: "git"}, time.Second, true) },
	"the agent was stopped for a moment":              func(t *testing.T, w *world) { w.stopped(t, stop.Target{Agent: ci.ID}, time.Second, true) },
	"everything was stopped for a moment":             func(t *testing.T, w *world) { w.stopped(t, stop.Target{All: true}, time.Second, true) },
	"the server was stopped at the time of the grant": func(t *testing.T, w *world) { w.stopped(t, stop.Target{Server: "git"}, 0, true) },
	"revoked": func(t *testing.T, w *world) {
		d := w.g.List[0]
		d.Verdict, d.At, d.Ends = request.Revoked, noon.Add(time.Second), noon.Add(time.Hour)
		var err error
		w.g, err = w.g.Add(d, false, d.At)
		require.OK(t, err)
	},
	"undone":                       func(_ *testing.T, w *world) { w.g = w.g.Without(w.g.List[0].Request) },
	"a verdict of a newer program": func(_ *testing.T, w *world) { w.g.List[0].Verdict = "permitted" },
	"declined":                     func(_ *testing.T, w *world) { w.g.List[0].Verdict = request.Declined },
	"the verdict is approved":      func(_ *testing.T, w *world) { w.g.List[0].Verdict = request.Approved },
}

// stopped stops the target. after is the time from the decision to the stop. If undone is set, it
// also undoes the stop.
func (w *world) stopped(t *testing.T, target stop.Target, after time.Duration, undone bool) {
	t.Helper()
	s := stoptest.Server("x")
	s.Target, s.At = target, noon.Add(after)
	held, err := w.now.Stops.Add(s)
	require.OK(t, err)
	if undone {
		held, err = held.Undo(target)
		require.OK(t, err)
	}
	w.now.Stops = held
}

// same has events that do not end the grant.
var same = map[string]func(*testing.T, *world){
	"nothing":                        func(*testing.T, *world) {},
	"just before the end":            func(_ *testing.T, w *world) { w.now.Time = w.g.List[0].Ends.Add(-1) },
	"a clock that is a minute slow":  func(_ *testing.T, w *world) { w.now.Time = noon.Add(-time.Minute) },
	"another spelling of the URL":    func(_ *testing.T, w *world) { w.now.URL = "https://MCP.example.com/mcp/" },
	"a sync wrote the record":        func(_ *testing.T, w *world) { w.now.Record.Rev++; w.now.Record.UpdatedAt = noon },
	"another server was stopped":     func(t *testing.T, w *world) { w.stopped(t, stop.Target{Server: "github"}, time.Second, true) },
	"another agent was stopped":      func(t *testing.T, w *world) { w.stopped(t, stop.Target{Agent: "token:cd"}, time.Second, true) },
	"the server was stopped earlier": func(t *testing.T, w *world) { w.stopped(t, stop.Target{Server: "git"}, -time.Second, true) },
	"nobody ever decided": func(_ *testing.T, w *world) {
		w.now.Record.DecidedAt, w.g.List[0].Against = time.Time{}, time.Time{}
	},
	"a server that is a program": func(_ *testing.T, w *world) { w.now.URL, w.g.List[0].URL = "", "" },
}

func TestGrantHolds(t *testing.T) {
	for _, verdict := range []request.Verdict{request.Allowed, request.Confirmed} {
		for name, happens := range same {
			w := opened(t, verdict)
			happens(t, &w)
			if allowed, confirmed := w.holds(); allowed != (verdict == request.Allowed) || confirmed != (verdict == request.Confirmed) {
				t.Errorf("%s, %s: allowed: %v, confirmed: %v", verdict, name, allowed, confirmed)
			}
		}
		for name, happens := range changes {
			w := opened(t, verdict)
			happens(t, &w)
			if allowed, confirmed := w.holds(); allowed || confirmed {
				t.Errorf("%s, %s: allowed: %v, confirmed: %v", verdict, name, allowed, confirmed)
			}
		}
	}
}
