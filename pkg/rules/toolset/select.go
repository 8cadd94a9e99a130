package toolset

import (
	"net/http"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

const noToolsLeft = "No tools left"

// retryAfter is when to retry if a server gives no time.
const retryAfter = 30 * time.Second

// A Selection has what one request is offered. It includes denied items, which agents see as
// locked.
type Selection struct {
	Tools     tool.Set // by their numbers in the universe
	Prompts   tool.Set
	Resources tool.Set // with templates

	Ignored []string // names that Prefer: handling=lenient dropped, sorted

	bound    *Bound
	view     view
	patterns []pattern // an offered tool matches all of them
}

// HasServer reports whether a server exists for this request: one of its items is offered, or
// could be once its items are known.
func (s Selection) HasServer(name string) bool {
	server, ok := s.server(name)
	return ok && (slices.ContainsFunc(s.bound.own[server], s.has) || s.bound.incomplete(server) && overlap(server, s.patterns))
}

// has reports whether item i is offered.
func (s Selection) has(i int) bool { return s.Tools.Has(i) || s.Prompts.Has(i) || s.Resources.Has(i) }

// ServerToolsets returns the toolsets that a server belongs to and that exist for the agent,
// sorted, for every selection.
func (s Selection) ServerToolsets(name string) []string {
	server, ok := s.server(name)
	if !ok {
		return nil
	}
	visible := intersect(s.bound.own[server], s.view.visible)
	incomplete := s.bound.incomplete(server)
	patterns := slices.Clip(s.view.patterns)
	var out []string
	for _, g := range s.bound.sorted {
		if slices.ContainsFunc(visible, g.has) || incomplete && overlap(server, append(patterns, g.pattern)) {
			out = append(out, g.name)
		}
	}
	return out
}

// server returns the index of a server that the agent may see.
func (s Selection) server(name string) (int, bool) {
	if s.bound == nil {
		return 0, false
	}
	server, ok := s.bound.byServer[name]
	return server, ok && s.view.scope[server]
}

// Select returns the items of the bound that req selects. The error is an [*Error] with all faults
// of the request. A request that does not narrow has no faults, and may be offered nothing.
func (b *Bound) Select(req Request, agent identity.Agent) (Selection, error) {
	q := &query{bound: b, view: b.view(agent), lenient: req.lenient}
	within := q.path(req.path)
	asked := q.selected(req, within)
	for _, name := range req.exclude.names {
		q.exclude(name, asked.tools)
	}
	if req.readOnly || b.onlyReadOnly {
		asked.tools = asked.tools.Intersect(b.readOnly)
	}
	if err := q.problems(); err != nil {
		return Selection{}, err
	}
	slices.Sort(q.ignored)
	s := Selection{
		Tools: asked.tools.Intersect(b.kinds[tool.Tool]), Ignored: slices.Compact(q.ignored), bound: b, view: q.view,
		Prompts: asked.tools.Intersect(b.kinds[tool.Prompt]), Resources: asked.tools.Intersect(b.kinds[tool.Resource]),
		patterns: append(slices.Clone(q.view.patterns), within.pattern, asked.pattern),
	}
	if asked.tools.Len() == 0 && req.narrows() {
		return Selection{}, s.nothing()
	}
	return s, nil
}

// nothing returns the reason why a selection is empty. If a server that is not loaded could have
// filled it, the error says so. If that server is likely to load soon, the error asks the caller to
// retry.
func (s Selection) nothing() *Error {
	var wait time.Duration
	away := false
	for i, server := range s.bound.servers {
		if server.Loaded || !s.view.scope[i] || !overlap(i, s.patterns) {
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
			": their server is disabled or unavailable, so its tools are not known. Without this selection, upstream_servers says why."}
	}
	if wait == 0 {
		return &Error{Status: http.StatusBadRequest, Message: noToolsLeft}
	}
	return &Error{
		Status: http.StatusServiceUnavailable, RetryAfter: max(wait, time.Second),
		Message: noToolsLeft + ": their server could not be reached just now. Try again later.",
	}
}

// A view has what exists for one agent.
type view struct {
	scope    []bool    // visible servers
	known    tool.Set  // their tools and other items, inside the agent's own toolsets
	visible  tool.Set  // the part of known that the operator offers
	patterns []pattern // a tool must match all to become visible; the operator's first
}

func (b *Bound) view(agent identity.Agent) view {
	v := view{scope: make([]bool, len(b.servers)), known: b.whole.tools, patterns: []pattern{b.offered.pattern}}
	every := slices.Contains(agent.Servers, "*")
	if !every {
		v.known = tool.NewSet(len(b.tools))
	}
	for i, s := range b.servers {
		if v.scope[i] = every || slices.Contains(agent.Servers, s.Name); v.scope[i] && !every {
			for _, n := range b.own[i] {
				v.known.Add(n)
			}
		}
	}
	if agent.Toolsets != nil {
		own := b.newGroup("")
		for _, name := range agent.Toolsets {
			if g := b.group(name); g != nil {
				own.join(g)
			}
		}
		v.known = v.known.Intersect(own.tools)
		v.patterns = append(v.patterns, own.pattern)
	}
	v.visible = v.known.Intersect(b.offered.tools)
	return v
}

// group returns the toolset of that name, as agents and requests write it, or nil.
func (b *Bound) group(name string) *group {
	if name = fold(name); name == standard {
		name = all
	}
	return b.groups[name]
}

// exists reports whether a toolset has a visible tool, or could have one once the tools of its
// servers are known.
func (b *Bound) exists(v view, g *group) bool {
	if g.meets(v.visible) {
		return true
	}
	patterns := append(slices.Clone(v.patterns), g.pattern)
	for i, in := range v.scope {
		if in && b.incomplete(i) && overlap(i, patterns) {
			return true
		}
	}
	return false
}

// incomplete reports whether a server may have unknown tools, or has no tools at all.
func (b *Bound) incomplete(server int) bool {
	return !b.servers[server].Loaded || len(b.own[server]) == 0
}
