package state

import (
	"slices"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/identity"
	"github.com/portcullis-mcp/portcullis/pkg/policy"
	"github.com/portcullis-mcp/portcullis/pkg/toolset"
)

// A bench judges the tools of one offer by one policy, once an agent.
type bench struct {
	offer    *offer
	policy   *policy.Policy // nil: unknown
	verdicts cache[*verdicts]
}

func newBench(o *offer, p *policy.Policy) *bench {
	return &bench{offer: o, policy: p, verdicts: cache[*verdicts]{max: cacheSize(len(o.rows))}}
}

// verdicts are those of the visible tools for one agent.
type verdicts struct {
	bench *bench
	agent identity.Agent
	in    []bool // which servers the agent sees

	mu  sync.Mutex
	all []policy.Verdict // by tool number; nil: not all are worked out yet
	one map[int]policy.Verdict
}

// list returns the verdicts of all visible tools, by tool number.
func (v *verdicts) list() []policy.Verdict {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all != nil {
		return v.all
	}
	o := v.bench.offer
	v.all = make([]policy.Verdict, len(o.rows))
	var tools []policy.Tool
	var numbers []int
	for _, i := range o.numbers {
		if v.in[o.rows[i].server] {
			tools = append(tools, o.policyTool(i))
			numbers = append(numbers, i)
		}
	}
	for n, verdict := range v.bench.policy.Verdicts(o.cfg, v.agent, tools) {
		v.all[numbers[n]] = verdict
	}
	v.one = nil
	return v.all
}

// at returns the verdict of the visible tool i. The first call of a tool in a
// new process does not wait for the verdicts of ten thousand others.
func (v *verdicts) at(i int) policy.Verdict {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all != nil {
		return v.all[i]
	}
	if verdict, ok := v.one[i]; ok {
		return verdict
	}
	o := v.bench.offer
	verdict := v.bench.policy.Verdicts(o.cfg, v.agent, []policy.Tool{o.policyTool(i)})[0]
	if v.one == nil {
		v.one = map[int]policy.Verdict{}
	}
	v.one[i] = verdict
	return verdict
}

// A world is all that views are worked out from. It is immutable, but for what
// it remembers of views.
type world struct {
	offer     *offer
	bench     *bench
	snap      *catalog.Snapshot
	servers   []Server
	census    Servers
	bound     *toolset.Bound
	boundErr  error
	standings []standing
	overlay   *overlay
	views     cache[*View]
}

// parts are what a world is made of; equal parts make an equal world.
type parts struct {
	offer   *offer
	bench   *bench
	snap    *catalog.Snapshot
	overlay *overlay
	unknown bool // what people decided
}

// newWorld works out a world, and takes over from the one before what still holds.
func newWorld(p parts, prev *world, prevParts parts) *world {
	if prev != nil && p == prevParts {
		return prev
	}
	w := &world{offer: p.offer, bench: p.bench, snap: p.snap, overlay: p.overlay, views: cache[*View]{max: cacheSize(p.snap.Len())}}
	if prev != nil && p.offer == prevParts.offer && p.snap == prevParts.snap {
		w.servers, w.census, w.bound, w.boundErr = prev.servers, prev.census, prev.bound, prev.boundErr
	} else {
		w.servers = p.offer.servers(p.snap)
		w.census = census(w.servers)
		w.bound, w.boundErr = toolset.Compile(p.offer.cfg, p.offer.universe(w.servers))
	}
	if prev != nil && p.offer == prevParts.offer && p.overlay == prevParts.overlay && p.unknown == prevParts.unknown {
		w.standings = prev.standings
	} else {
		w.standings = standings(p.offer, p.overlay, p.unknown)
	}
	return w
}

// warnings are what looks wrong in the operator's selection, one line each.
func (w *world) warnings() []string {
	if w.boundErr != nil {
		return nil // that is more than a warning: Health.Selection
	}
	return warnings(config.Key, w.bound.Warnings())
}

// view returns the agent's view, shared with other requests of that agent.
func (w *world) view(agent identity.Agent) *View {
	key := agentKey(agent)
	return w.views.get(key, func() *View {
		in := make([]bool, len(w.servers))
		for i, s := range w.servers {
			in[i] = slices.Contains(agent.Servers, "*") || slices.Contains(agent.Servers, s.Config.Name)
		}
		v := w.bench.verdicts.get(key, func() *verdicts { return &verdicts{bench: w.bench, agent: agent, in: in} })
		return &View{w: w, agent: agent, in: in, verdicts: v}
	})
}
