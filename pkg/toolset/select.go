package toolset

import (
	"net/http"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/identity"
)

const noToolsLeft = "No tools left"

// retryAfter is when to ask again for servers that did not say.
const retryAfter = 30 * time.Second

// A Selection is the set of tools that one request is offered, by number. Those that
// the operator denies are in it: they are shown as locked.
type Selection struct {
	Ignored []string // names that Prefer: handling=lenient dropped, sorted

	tools   set
	bound   *Bound
	scope   []bool   // by server
	reaches []*reach // what a tool must be in to be offered
}

// Has reports whether tool number i is offered.
func (s Selection) Has(i int) bool { return s.tools.has(i) }

// Len returns how many tools are offered.
func (s Selection) Len() int { return s.tools.len() }

// HasServer reports whether a server exists for this request: one of its tools is
// offered, or one could be as soon as its tools are known.
func (s Selection) HasServer(name string) bool {
	if s.bound == nil {
		return false
	}
	server, ok := s.bound.byServer[name]
	if !ok || !s.scope[server] {
		return false
	}
	return slices.ContainsFunc(s.bound.own[server], s.tools.has) ||
		s.bound.open(server) && overlap(server, s.reaches...)
}

// Select returns what req is offered of the bound. The error is an [*Error] with everything
// that is wrong with the request. A request that does not narrow has nothing wrong
// with it, and may be offered nothing.
func (b *Bound) Select(req Request, agent identity.Agent) (Selection, error) {
	v := b.view(agent)
	q := &query{bound: b, view: v, lenient: req.lenient}
	within := q.path(req.path)
	asked := q.asked(req, within)
	for _, name := range req.exclude.names {
		q.exclude(name, asked.tools)
	}
	if req.readOnly || b.readOnly {
		asked.tools.keep(b.reading)
	}
	if err := q.problems(); err != nil {
		return Selection{}, err
	}
	slices.Sort(q.ignored)
	s := Selection{
		Ignored: slices.Compact(q.ignored), tools: asked.tools, bound: b, scope: v.scope,
		reaches: append(slices.Clone(v.reaches), within.reach, asked.reach),
	}
	if asked.tools.len() == 0 && req.Narrows() {
		return Selection{}, s.nothing()
	}
	return s, nil
}

// nothing says why a selection is empty. If a server that is away could have filled it, it
// says so; if that is likely to come back, the caller is asked to come back, too.
func (s Selection) nothing() *Error {
	var wait time.Duration
	away := false
	for i, server := range s.bound.servers {
		if server.Loaded || !s.scope[i] || !overlap(i, s.reaches...) {
			continue
		}
		if away = true; !server.Transient {
			continue
		}
		after := server.RetryAfter
		if after <= 0 {
			after = retryAfter
		}
		if wait == 0 || after < wait {
			wait = after
		}
	}
	if wait == 0 && away {
		return &Error{Status: http.StatusBadRequest, Message: noToolsLeft +
			": their server is switched off or unavailable, and its tools are not known; without this selection upstream_servers says why"}
	}
	if wait == 0 {
		return &Error{Status: http.StatusBadRequest, Message: noToolsLeft}
	}
	return &Error{
		Status: http.StatusServiceUnavailable, RetryAfter: max(wait, time.Second),
		Message: noToolsLeft + ": their server could not be reached just now; try again later",
	}
}

// A view is what exists for one agent.
type view struct {
	scope   []bool   // servers that it may see
	known   set      // tools of those, inside the agent's own toolsets
	visible set      // of these, what the operator offers
	reaches []*reach // what a tool must be in to become visible
}

func (b *Bound) view(agent identity.Agent) view {
	v := view{scope: make([]bool, len(b.servers)), known: newSet(len(b.tools)), reaches: []*reach{b.reach}}
	every := slices.Contains(agent.Servers, "*")
	for i, s := range b.servers {
		v.scope[i] = every || slices.Contains(agent.Servers, s.Name)
	}
	for i, home := range b.home {
		if home >= 0 && v.scope[home] {
			v.known.add(i)
		}
	}
	if agent.Toolsets != nil {
		own := b.union(agent.Toolsets)
		v.known.keep(own.tools)
		v.reaches = append(v.reaches, own.reach)
	}
	v.visible = v.known.clone()
	v.visible.keep(b.offered)
	return v
}

// union joins the named toolsets. One that does not exist adds nothing.
func (b *Bound) union(names []string) *group {
	u := &group{tools: newSet(len(b.tools)), reach: &reach{}}
	for _, name := range names {
		g := b.groups[fold(name)]
		if fold(name) == all || fold(name) == standard {
			g = b.whole
		}
		if g != nil {
			u.tools.unite(g.tools)
			u.reach.join(g.reach)
		}
	}
	return u
}

// exists reports whether a toolset has a tool that is visible, or could
// have one as soon as the tools of its servers are known.
func (b *Bound) exists(v view, g *group) bool {
	if g.tools.meets(v.visible) {
		return true
	}
	reaches := append(slices.Clone(v.reaches), g.reach)
	for i, in := range v.scope {
		if in && b.open(i) && overlap(i, reaches...) {
			return true
		}
	}
	return false
}

// open reports whether a server may have tools that are not known, or has none at all.
func (b *Bound) open(server int) bool {
	return !b.servers[server].Loaded || len(b.own[server]) == 0
}

// ServerToolsets returns, for each server that the agent may see, the toolsets that the
// server belongs to, sorted, as far as they exist for this agent.
func (b *Bound) ServerToolsets(agent identity.Agent) map[string][]string {
	v := b.view(agent)
	out := map[string][]string{}
	for _, g := range b.sorted {
		has := make([]bool, len(b.servers))
		seen := g.tools.clone()
		seen.keep(v.visible)
		for i := range seen.all() {
			has[b.home[i]] = true
		}
		reaches := append(slices.Clone(v.reaches), g.reach)
		for i, s := range b.servers {
			if has[i] || v.scope[i] && b.open(i) && overlap(i, reaches...) {
				out[s.Name] = append(out[s.Name], g.name)
			}
		}
	}
	return out
}
