package state

import (
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/finding"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/toolset"
)

// A View is one agent's view of a [State]. Items have their number in the catalog. An item that is
// not in [View.Tools] or [View.Items] does not exist for this agent. A View is immutable and safe
// for concurrent use.
type View struct {
	r        *derived // nil: the view is empty
	agent    identity.Agent
	servers  []Server // in scope
	tools    tool.Set // of these servers
	items    tool.Set // prompts and resources of these servers
	verdicts *verdicts
	grants   map[int]bool // items that a grant makes callable for this agent

	once     sync.Once
	statuses []lock.Status // by number; of visible items only
	callable tool.Set
}

// Tools returns the tools that exist for the agent: their server is configured and in the agent's
// scope. The caller must not change the set.
func (v *View) Tools() tool.Set { return v.tools }

// Items returns the prompts and resources that exist for the agent. The caller must not change the
// set.
func (v *View) Items() tool.Set { return v.items }

// Callable returns the tools of [View.Tools] that are not locked, as of the state. The caller must
// not change the set.
func (v *View) Callable() tool.Set {
	v.classify()
	return v.callable
}

// ReadOnly returns the tools whose tier is [tool.Read], visible or not. The caller must not change
// the set.
func (v *View) ReadOnly() tool.Set {
	if v.r == nil {
		return nil
	}
	return v.r.inventory.readOnly
}

// Find returns the number of a visible tool or other item.
func (v *View) Find(id tool.ID) (int, bool) {
	if v.r == nil {
		return 0, false
	}
	i, ok := v.r.snap.Find(id)
	return i, ok && (v.tools.Has(i) || v.items.Has(i))
}

// Select returns the request's selection of the view. The error is a [*toolset.Error].
func (v *View) Select(req toolset.Request) (toolset.Selection, error) {
	if v.r == nil {
		return toolset.Selection{}, nil
	}
	return v.r.bound.Select(req, v.agent)
}

// ID returns the id of item i.
func (v *View) ID(i int) tool.ID { return v.r.snap.ID(i) }

// IDText returns the text of the id of item i without an allocation.
func (v *View) IDText(i int) string { return v.r.snap.IDText(i) }

// Tool returns item i with the catalog's data. Its status decides which text may be shown: see
// [View.Description].
func (v *View) Tool(i int) catalog.Tool { return v.r.snap.Tool(i) }

// Brief returns the catalog's data of tool i for a compact answer.
func (v *View) Brief(i int) (signature string, lossy bool, description string) {
	return v.r.snap.Brief(i)
}

// Findings returns the findings of item i for a reviewer.
func (v *View) Findings(i int) []finding.Finding { return v.r.snap.Findings(i) }

// Record returns the approval record of item i as of the state, without definitions, or nil. If a
// decision is newer than the catalog, the record has the decision but not the person, and its
// UpdatedAt is zero.
func (v *View) Record(i int) *approval.Record {
	t := v.r.snap.Reviewed(i, v.ID(i), new(approval.Record))
	return v.r.decided.Record(t.ID, t.Approval)
}

// ApprovalState returns the state of the approval record of item i as of the state, or "" if there
// is none.
func (v *View) ApprovalState(i int) approval.State {
	state, rev, _, ok := v.r.snap.ApprovalState(i)
	if !ok {
		rev = -1
	}
	if d, ok := v.r.decided.After(v.r.snap.ID(i), rev); ok {
		return d.State
	}
	return state
}

// Server returns the server of the visible item i.
func (v *View) Server(i int) Server { return v.r.servers[v.r.inventory.rows[i].server] }

// Servers returns the servers in the agent's scope, by name.
func (v *View) Servers() []Server { return v.servers }

// Hints returns the effective annotations of item i: the server's, then the operator's.
func (v *View) Hints(i int) tool.Annotations { return v.r.inventory.rows[i].hints }

// Tier returns the tier of item i, by its effective annotations.
func (v *View) Tier(i int) tool.Tier { return v.r.inventory.rows[i].tier }

// NeedsFourEyes reports whether an approval of a definition of the named server needs two people.
// Without a config the answer is unknown, and NeedsFourEyes returns true.
func (v *View) NeedsFourEyes(server string, d tool.Definition) bool {
	return v.r == nil || v.r.inventory.cfg.TakesTwo(server, d)
}

// Verdict returns the verdict of the operator's rules on the visible item i for this agent.
func (v *View) Verdict(i int) policy.Verdict { return v.verdicts.at(i) }

// FactsAt returns the facts that decide whether the visible item i is callable. r is its approval
// record in the store now, or nil. Decisions in the catalog that the store has lost still count.
func (v *View) FactsAt(i int, r *approval.Record) lock.Facts {
	return v.factsAt(i, r, v.enabled(i), v.granted(i))
}

// FactsNow works like [View.FactsAt], but with the stops and grants in the store now. A call uses
// it, so that a decision, a stop and a grant take effect immediately.
func (v *View) FactsNow(i int, r *approval.Record, stops stop.Stops, g request.Granted, now time.Time) lock.Facts {
	all := stopped{Stops: union(v.r.cfg, stops)}
	granted := lock.Unknown
	if len(g.List) > 0 && r != nil {
		record := *r // r itself would escape to the heap at every call
		_, allowed := g.Allows(v.NowAt(i, &record, stops, now))
		granted = lock.FactOf(allowed)
	}
	return v.factsAt(i, r, all.serverEnabled(&v.r.cfg.Servers[v.r.inventory.rows[i].server]), granted)
}

func (v *View) factsAt(i int, r *approval.Record, enabled, granted lock.Fact) lock.Facts {
	known, what := v.recordOf(i)
	disabled, approved := factsAt(r, known, what)
	return facts(enabled, v.Verdict(i), granted, disabled, approved)
}

// recordOf returns the known approval record of item i, or nil. It also returns the subject to
// compare the record with.
func (v *View) recordOf(i int) (*approval.Record, subject) {
	t := v.r.snap.Reviewed(i, v.ID(i), new(approval.Record))
	return v.r.decided.Record(t.ID, t.Approval), v.r.inventory.subject(i, t)
}

// Note returns the note for agents about the visible item i, in one line, if its status is s, or
// "". The note is from the person who decided last. Decisions since the catalog was made have no
// note, because they are stored without text.
func (v *View) Note(i int, s lock.Status) string {
	record, what := v.recordOf(i)
	return noteOf(record, what, s)
}

// NoteAt works like [View.Note], but with r, the approval record in the store now. A nil r is
// unknown.
func (v *View) NoteAt(i int, s lock.Status, r *approval.Record) string {
	_, what := v.recordOf(i)
	return noteOf(r, what, s)
}

// FactsWithout works like [View.FactsAt], but without any decision or stop: its facts follow only
// from config and policy.
func (v *View) FactsWithout(i int) lock.Facts {
	return facts(lock.FactOf(v.Server(i).Config.Enabled), v.Verdict(i), lock.Unknown, lock.Unknown, lock.Unknown)
}

func facts(enabled lock.Fact, verdict policy.Verdict, granted, userDisabled, approved lock.Fact) lock.Facts {
	return lock.Facts{ServerEnabled: enabled, Denied: verdict.Denied, Granted: granted, UserDisabled: userDisabled, Approved: approved}
}

// enabled returns whether the server of item i is enabled and not stopped, as of the state.
func (v *View) enabled(i int) lock.Fact { return v.r.enabled[v.r.inventory.rows[i].server] }

// Status returns why the visible item i is locked, as of the state; [lock.None]: it is callable.
func (v *View) Status(i int) lock.Status {
	v.classify()
	return v.statuses[i]
}

// classify computes the statuses of all visible items, once.
func (v *View) classify() {
	v.once.Do(func() {
		if v.r == nil {
			return
		}
		verdicts := v.verdicts.list()
		v.statuses, v.callable = make([]lock.Status, len(verdicts)), tool.NewSet(len(verdicts))
		status := func(i int) lock.Status {
			d := &v.r.decisions[i]
			return lock.Classify(facts(v.enabled(i), verdicts[i], v.granted(i), d.userDisabled, d.approved))
		}
		for i := range v.tools.All() {
			if v.statuses[i] = status(i); v.statuses[i] == lock.None {
				v.callable.Add(i)
			}
		}
		for i := range v.items.All() {
			v.statuses[i] = status(i)
		}
	})
}

// Description returns the text of the visible item i that an agent may read while its status is s,
// or "".
//
// Description never returns unapproved text, which may contain instructions to the agent.
func (v *View) Description(i int, s lock.Status) string {
	d := v.r.decisions[i]
	switch s {
	case lock.None:
		return v.r.snap.Tool(i).Definition.Description
	case lock.ServerDisabled, lock.DisabledByConfig, lock.DisabledByUser, lock.PendingApproval:
		if d.current {
			return v.r.snap.Tool(i).Definition.Description
		}
		if len(d.last) == 0 {
			return ""
		}
		last, err := tool.ReadItem(v.ID(i).Kind, d.last)
		if err != nil {
			return ""
		}
		return last.Description
	case lock.DisabledUnknown:
	}
	return ""
}
