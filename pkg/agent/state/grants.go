package state

import (
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// NowAt returns the current facts that decide whether a grant of the view's agent for the visible
// item i is valid.
func (v *View) NowAt(i int, r *approval.Record, stops stop.Stops, now time.Time) request.Now {
	cached, what := v.recordOf(i)
	if r != nil && cached != nil && (cached.Rev > r.Rev || cached.Rev == r.Rev && !cached.DecidedAt.Equal(r.DecidedAt)) {
		r = nil // the store's record is older, and lacks later decisions
	}
	if what.nested {
		what.hash = "" // no grant has the empty hash
	}
	return request.Now{
		Item: v.ID(i), Hash: what.hash, URL: what.server.URL, Agent: v.agent.ID, Record: r, Stops: stops, Time: now,
		Two: v.NeedsFourEyes(what.server.Name, v.Tool(i).Definition),
	}
}

// With returns the view of an agent with its grants, as of the state. Granted items are callable in
// the view. A call checks the grants again.
func (v *View) With(g request.Granted, now time.Time) *View {
	var grants map[int]bool
	for _, d := range g.List {
		i, ok := v.Find(d.Item())
		if !ok || d.Verdict != request.Allowed {
			continue
		}
		record, _ := v.recordOf(i)
		if _, allowed := g.Allows(v.NowAt(i, record, v.r.stopped.Stops, now)); allowed {
			if grants == nil {
				grants = map[int]bool{}
			}
			grants[i] = true
		}
	}
	if grants == nil {
		return v
	}
	return &View{r: v.r, agent: v.agent, servers: v.servers, tools: v.tools, items: v.items, verdicts: v.verdicts, grants: grants}
}

func (v *View) granted(i int) lock.Fact {
	if v.grants[i] {
		return lock.Yes
	}
	return lock.Unknown
}

// Confirmed returns the tools whose calls each need a person's confirmation, visible or not. The
// caller must not change it.
func (v *View) Confirmed() tool.Set {
	if v.r == nil {
		return nil
	}
	return v.r.inventory.confirm
}
