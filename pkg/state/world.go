package state

import (
	"slices"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
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

// verdicts are those of every visible tool for one agent, by tool number.
type verdicts struct {
	once sync.Once
	all  []policy.Verdict
}

// of returns the verdicts for the agent; in tells which servers it sees.
func (b *bench) of(key string, agent identity.Agent, in []bool) []policy.Verdict {
	v := b.verdicts.get(key, func() *verdicts { return &verdicts{} })
	v.once.Do(func() {
		v.all = make([]policy.Verdict, len(b.offer.rows))
		var tools []policy.Tool
		var numbers []int
		for n, i := range b.offer.numbers {
			if in[b.offer.rows[i].server] {
				tools = append(tools, b.offer.judged[n])
				numbers = append(numbers, i)
			}
		}
		for n, verdict := range b.policy.Verdicts(b.offer.cfg, agent, tools) {
			v.all[numbers[n]] = verdict
		}
	})
	return v.all
}

// A world is all that views are worked out from. It is immutable, but for what
// it remembers of views.
type world struct {
	offer     *offer
	bench     *bench
	snap      *catalog.Snapshot
	servers   []Server
	bound     *toolset.Bound
	boundErr  error
	standings []standing
	views     cache[*View]
}

// parts are what a world is made of; equal parts make an equal world.
type parts struct {
	offer   *offer
	bench   *bench
	snap    *catalog.Snapshot
	overlay *overlay
	expired bool
}

// newWorld works out a world, and takes over from the one before what still holds.
func newWorld(p parts, prev *world, prevParts parts) *world {
	if prev != nil && p == prevParts {
		return prev
	}
	w := &world{offer: p.offer, bench: p.bench, snap: p.snap, views: cache[*View]{max: cacheSize(p.snap.Len())}}
	if prev != nil && p.offer == prevParts.offer && p.snap == prevParts.snap {
		w.servers, w.bound, w.boundErr = prev.servers, prev.bound, prev.boundErr
	} else {
		w.servers = p.offer.servers(p.snap)
		w.bound, w.boundErr = toolset.Compile(p.offer.cfg, p.offer.universe(w.servers))
	}
	if prev != nil && p.offer == prevParts.offer && p.overlay == prevParts.overlay && p.expired == prevParts.expired {
		w.standings = prev.standings
	} else {
		w.standings = standings(p.offer, p.overlay, p.expired)
	}
	return w
}

// view returns the agent's view, shared with other requests of that agent.
func (w *world) view(agent identity.Agent) *View {
	key := agentKey(agent)
	return w.views.get(key, func() *View {
		in := make([]bool, len(w.servers))
		for i, s := range w.servers {
			in[i] = slices.Contains(agent.Servers, "*") || slices.Contains(agent.Servers, s.Config.Name)
		}
		return &View{w: w, key: key, agent: agent, in: in}
	})
}
