package state

import (
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/identity"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/policy"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// A View is a [State] as one agent may see it. Tools are named by their number in the
// catalog; a number that is not [View.Visible] does not exist for this agent.
// It is immutable and safe for concurrent use.
type View struct {
	r        *resolved // nil: there is nothing to see
	agent    identity.Agent
	in       []bool // which servers are in scope
	verdicts *verdicts

	once     sync.Once
	statuses []lock.Status // by number; of visible tools only
}

// Agent returns whose view it is.
func (v *View) Agent() identity.Agent { return v.agent }

// Len returns the number of tools in the catalog, visible or not.
func (v *View) Len() int {
	if v.r == nil {
		return 0
	}
	return v.r.snap.Len()
}

// Visible reports whether tool i exists for the agent: its server is configured
// and in the agent's scope.
func (v *View) Visible(i int) bool {
	if v.r == nil || i < 0 || i >= len(v.r.inventory.rows) {
		return false
	}
	server := v.r.inventory.rows[i].server
	return server >= 0 && v.in[server]
}

// Find returns the number of a visible tool.
func (v *View) Find(id tool.ID) (int, bool) {
	if v.r == nil {
		return 0, false
	}
	i, ok := v.r.snap.Find(id)
	if !ok || !v.Visible(i) {
		return 0, false
	}
	return i, true
}

// ID returns the id of tool i.
func (v *View) ID(i int) tool.ID { return v.r.snap.ID(i) }

// Tool returns tool i as the catalog holds it. What of it may be shown, its
// status decides: see [View.Description].
func (v *View) Tool(i int) catalog.Tool { return v.r.snap.Tool(i) }

// Server returns the server of the visible tool i.
func (v *View) Server(i int) Server { return v.r.servers[v.r.inventory.rows[i].server] }

// Servers returns the servers in the agent's scope, by name.
func (v *View) Servers() []Server {
	if v.r == nil {
		return nil
	}
	var out []Server
	for i, s := range v.r.servers {
		if v.in[i] {
			out = append(out, s)
		}
	}
	return out
}

// Hints returns the effective annotations of tool i: the server's, then the operator's.
func (v *View) Hints(i int) tool.Annotations { return v.r.inventory.rows[i].hints }

// Tier returns the tier of tool i, by its effective annotations.
func (v *View) Tier(i int) tool.Tier { return v.r.inventory.rows[i].tier }

// Verdict returns what the operator's rules say of the visible tool i for this agent.
func (v *View) Verdict(i int) policy.Verdict { return v.verdicts.at(i) }

// Facts returns what decides whether the visible tool i is callable, as of the state.
func (v *View) Facts(i int) lock.Facts {
	s := v.r.decisions[i]
	return v.facts(i, s.userDisabled, s.approved)
}

// FactsAt is [View.Facts] with the approval record as it is in the store now; nil:
// there is none. A call decides by it, so that a decision counts at once. What the store
// lost of what was known before still holds.
func (v *View) FactsAt(i int, r *approval.Record) lock.Facts {
	t := v.r.snap.Tool(i)
	disabled, approved := factsAt(r, v.r.overlay.record(t.ID, t.Approval), v.Server(i).Config, t.Definition.Hash)
	return v.facts(i, disabled, approved)
}

// FactsWithout is [View.Facts] with nothing known of people's decisions.
func (v *View) FactsWithout(i int) lock.Facts { return v.facts(i, lock.Unknown, lock.Unknown) }

func (v *View) facts(i int, userDisabled, approved lock.Fact) lock.Facts {
	return lock.Facts{
		ServerEnabled: lock.FactOf(v.Server(i).Config.Enabled),
		Denied:        v.Verdict(i).Denied,
		UserDisabled:  userDisabled,
		Approved:      approved,
	}
}

// Status returns why the visible tool i is locked, as of the state; [lock.None]: it is callable.
func (v *View) Status(i int) lock.Status {
	v.once.Do(func() {
		verdicts := v.verdicts.list()
		v.statuses = make([]lock.Status, v.Len())
		for _, i := range v.r.inventory.numbers {
			server := v.r.inventory.rows[i].server
			if !v.in[server] {
				continue
			}
			s := &v.r.decisions[i]
			v.statuses[i] = lock.Classify(lock.Facts{
				ServerEnabled: lock.FactOf(v.r.servers[server].Config.Enabled),
				Denied:        verdicts[i].Denied,
				UserDisabled:  s.userDisabled,
				Approved:      s.approved,
			})
		}
	})
	return v.statuses[i]
}

// Description returns the text of the visible tool i that an agent may read while
// its status is s; "" if none may be.
//
// What nobody approved is not shown: it can be written to be obeyed.
func (v *View) Description(i int, s lock.Status) string {
	st := v.r.decisions[i]
	switch s {
	case lock.None:
		return v.r.snap.Tool(i).Definition.Description
	case lock.ServerDisabled, lock.DisabledByConfig, lock.DisabledByUser, lock.PendingApproval:
		if st.current {
			return v.r.snap.Tool(i).Definition.Description
		}
		if len(st.last) == 0 {
			return ""
		}
		d, err := tool.ReadDefinition(st.last)
		if err != nil {
			return ""
		}
		return d.Description
	case lock.DisabledUnknown:
	}
	return ""
}
