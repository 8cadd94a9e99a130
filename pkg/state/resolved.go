package state

import (
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/identity"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
	"github.com/portcullis-mcp/portcullis/pkg/toolset"
)

// resolved is everything that views are computed from. It is immutable, but for the
// views that it keeps.
type resolved struct {
	inventory *inventory
	cache     *policyCache
	snap      *catalog.Snapshot
	servers   []Server
	counts    Servers
	bound     *toolset.Bound
	boundErr  error
	decisions []decision
	decided   *approval.Decisions
	views     cache[*View]
}

// inputs are what a resolved state is computed from; equal inputs give an equal result.
type inputs struct {
	inventory *inventory
	cache     *policyCache
	snap      *catalog.Snapshot
	decided   *approval.Decisions
	unknown   bool // what people decided
}

// resolve computes what in stands for, and takes from prev whatever has not changed.
func resolve(in inputs, prev *resolved, prevIn inputs) *resolved {
	if prev != nil && in == prevIn {
		return prev
	}
	r := &resolved{inventory: in.inventory, cache: in.cache, snap: in.snap, decided: in.decided, views: cache[*View]{max: cacheSize(in.snap.Len())}}
	if prev != nil && in.inventory == prevIn.inventory && in.snap == prevIn.snap {
		r.servers, r.counts, r.bound, r.boundErr = prev.servers, prev.counts, prev.bound, prev.boundErr
	} else {
		r.servers = in.inventory.servers(in.snap)
		r.counts = countServers(r.servers)
		r.bound, r.boundErr = toolset.Compile(in.inventory.cfg, in.inventory.universe(r.servers))
	}
	if prev != nil && in.inventory == prevIn.inventory && in.decided == prevIn.decided && in.unknown == prevIn.unknown {
		r.decisions = prev.decisions
	} else {
		r.decisions = decide(in.inventory, in.decided, in.unknown)
	}
	return r
}

// warnings are what looks wrong in the operator's selection, one line each.
func (r *resolved) warnings() []string {
	if r.boundErr != nil {
		return nil // that is more than a warning: Health.Selection
	}
	return warnings(config.Key, r.bound.Warnings())
}

// view returns the agent's view, shared with other requests of that agent.
func (r *resolved) view(agent identity.Agent) *View {
	key := agentKey(agent)
	return r.views.get(key, func() *View {
		v := &View{r: r, agent: agent, tools: tool.NewSet(len(r.inventory.rows))}
		for _, s := range r.servers {
			if slices.Contains(agent.Servers, "*") || slices.Contains(agent.Servers, s.Config.Name) {
				v.servers = append(v.servers, s)
				for i := range s.Tools {
					v.tools.Add(s.First + i)
				}
			}
		}
		v.verdicts = r.cache.verdicts.get(key, func() *verdicts { return &verdicts{cache: r.cache, agent: agent, tools: v.tools} })
		return v
	})
}
