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

// inputs are the inputs of a state; equal inputs give an equal state.
type inputs struct {
	cfg     *config.Config
	policy  *policy.Policy // nil: unknown
	snap    *catalog.Snapshot
	decided *approval.Decisions
	unknown bool // the decisions of people are unknown
	stopped *stopped
}

// base is the part of a state that depends only on config, policy and catalog. It is immutable,
// except for the cached verdicts.
type base struct {
	of        inputs // that the base was computed from; without decisions and stops
	inventory *inventory
	verdicts  *cache[*verdicts] // the policy cache: by agent, for one inventory and policy
	servers   []Server
	loaded    []toolset.Server // the servers that the field bound was compiled for
	bound     *toolset.Bound
}

// newBase computes a base. It reuses the unchanged parts of prev, which may be empty.
func newBase(in inputs, prev *base) *base {
	if in == prev.of {
		return prev
	}
	b := *prev
	b.of = in
	tools := in.cfg != prev.of.cfg || in.snap.SHA256() != prev.of.snap.SHA256()
	if tools {
		b.inventory = newInventory(in.cfg, in.snap)
	}
	if tools || in.policy != prev.of.policy {
		b.verdicts = &cache[*verdicts]{max: cacheSize(in.snap.Items())}
	}
	if tools || in.snap != prev.of.snap {
		b.servers = b.inventory.servers(in.snap)
		// Compile a new bound only if necessary: it has a set for each server, and new sets at each
		// sync would take much memory.
		if loaded := loadedServers(b.servers); tools || !slices.Equal(loaded, b.loaded) {
			b.loaded = loaded
			b.bound = toolset.Compile(in.cfg, b.inventory.universe(loaded))
		}
	}
	return &b
}

// derived is the source of all views. It is immutable, except for the cached views.
type derived struct {
	inputs
	*base
	decisions []decision  // by item number
	enabled   []lock.Fact // by server number: enabled and not stopped
	counts    Servers
	views     cache[*View]
}

// derive computes a state. It reuses the unchanged parts of prev, which may be nil or have only a
// base.
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

// view returns the agent's view, which requests of the same agent share.
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
