package state

import (
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/toolset"
)

// inputs are what a state is computed from; equal inputs give an equal one.
type inputs struct {
	cfg     *config.Config
	policy  *policy.Policy // nil: unknown
	snap    *catalog.Snapshot
	decided *approval.Decisions
	unknown bool // nothing is known of what people decided
	stopped *stopped
}

// base is what follows from config, policy and catalog alone. It is immutable, but for the verdicts that
// it keeps.
type base struct {
	of        inputs // without decisions and stops
	inventory *inventory
	verdicts  *cache[*verdicts] // the policy cache: by agent, for one inventory and policy
	servers   []Server
	loaded    []toolset.Server // as bound has them
	bound     *toolset.Bound
}

// newBase works out a base, and takes from prev, which may be empty, whatever has not changed.
func newBase(of inputs, prev *base) *base {
	if of == prev.of {
		return prev
	}
	b := *prev
	b.of = of
	tools := of.cfg != prev.of.cfg || of.snap.SHA256() != prev.of.snap.SHA256()
	if tools {
		b.inventory = newInventory(of.cfg, of.snap)
	}
	if tools || of.policy != prev.of.policy {
		b.verdicts = &cache[*verdicts]{max: cacheSize(of.snap.Items())}
	}
	if tools || of.snap != prev.of.snap {
		b.servers = b.inventory.servers(of.snap)
		// It has a set of each server: to make them anew at each sync takes much memory.
		if loaded := loadedServers(b.servers); tools || !slices.Equal(loaded, b.loaded) {
			b.loaded = loaded
			b.bound = toolset.Compile(of.cfg, b.inventory.universe(loaded))
		}
	}
	return &b
}

// derived is everything that views are computed from. It is immutable, but for the
// views that it keeps.
type derived struct {
	inputs
	*base
	decisions []decision  // by number
	enabled   []lock.Fact // servers by number: enabled, and not stopped
	counts    Servers
	views     cache[*View]
}

// derive computes a state, and takes from prev, which may be nil or have a base alone, whatever has
// not changed.
func derive(in inputs, prev *derived) *derived {
	if prev == nil {
		prev = &derived{base: &base{}}
	}
	if in == prev.inputs {
		return prev
	}
	r := &derived{
		inputs: in, base: newBase(inputs{cfg: in.cfg, policy: in.policy, snap: in.snap}, prev.base), decisions: prev.decisions,
		views: cache[*View]{max: cacheSize(in.snap.Items())},
	}
	if r.decisions == nil || r.inventory != prev.inventory || !in.decided.Same(prev.decided) || in.unknown != prev.unknown {
		r.decisions = decide(r.inventory, in.decided, in.unknown)
	}
	r.enabled = make([]lock.Fact, len(in.cfg.Servers))
	for i := range in.cfg.Servers {
		r.enabled[i] = in.stopped.serverEnabled(&in.cfg.Servers[i])
	}
	r.counts = countServers(r.servers, in.stopped)
	return r
}

// view returns the agent's view, shared with other requests of that agent.
func (r *derived) view(agent identity.Agent) *View {
	key := agentKey(agent)
	return r.views.get(key, func() *View {
		n := len(r.inventory.rows)
		v := &View{r: r, agent: agent, tools: tool.NewSet(n), items: tool.NewSet(n)}
		for _, s := range r.servers {
			if slices.Contains(agent.Servers, "*") || slices.Contains(agent.Servers, s.Config.Name) {
				v.servers = append(v.servers, s)
				for i := range s.Tools {
					v.tools.Add(s.First + i)
				}
				for i := range s.Items {
					v.items.Add(s.FirstItem + i)
				}
			}
		}
		v.verdicts = r.verdicts.get(key, func() *verdicts {
			all := slices.Clone(v.tools)
			all.AddAll(v.items)
			return &verdicts{inventory: r.inventory, policy: r.policy, agent: agent, items: all}
		})
		return v
	})
}
