package toolset

import (
	"net/http"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A query resolves the names of one request, and collects their faults.
type query struct {
	bound   *Bound
	view    view
	lenient bool

	within  tool.Set // items of the path's toolset that the agent may see
	wrong   Error    // the faults so far; problems adds the message
	ignored []string
}

// path resolves the toolset that the request's path names. An unknown toolset is a fault even in a
// lenient request, because that request would select nothing.
func (q *query) path(name string) *group {
	g := q.bound.whole
	if name != "" {
		if g = q.toolset(name); g == nil {
			q.wrong.UnknownToolsets = append(q.wrong.UnknownToolsets, name)
			g = q.bound.newGroup("")
		}
	}
	q.within = q.view.visible.Intersect(q.bound.set(g))
	return g
}

// toolset returns the toolset of that name. It returns nil if none exists for the agent.
func (q *query) toolset(name string) *group {
	g := q.bound.group(name)
	if g == q.bound.whole || g != nil && q.bound.exists(q.view, g) {
		return g
	}
	return nil
}

// selected returns the items of the path's toolset that the request's lists of toolsets and of
// tools choose.
func (q *query) selected(req Request, within *group) *group {
	if !req.toolsets.given && !req.tools.given {
		return &group{tools: slices.Clone(q.within), pattern: within.pattern}
	}
	asked := q.bound.newGroup("")
	for _, name := range req.toolsets.names {
		if g := q.toolset(name); g != nil {
			asked.join(g)
		} else if !q.ignore(name) {
			q.wrong.UnknownToolsets = append(q.wrong.UnknownToolsets, name)
		}
	}
	for _, name := range req.tools.names {
		q.tool(name, asked)
	}
	asked.tools = asked.tools.Intersect(q.within)
	return asked
}

// ignore reports whether the request is lenient, and then lists the name among the ignored names.
func (q *query) ignore(name string) bool {
	if q.lenient {
		q.ignored = append(q.ignored, name)
	}
	return q.lenient
}

// tool adds the named tool to asked.
func (q *query) tool(name string, asked *group) {
	numbers, server, bare := q.lookup(name)
	visible := intersect(numbers, q.view.visible)
	candidates := visible
	if len(candidates) > 1 { // the path may distinguish them
		candidates = intersect(candidates, q.within)
	}
	switch {
	case len(candidates) > 1:
		q.conflict(name, candidates)
	case len(candidates) == 1:
		asked.tools.Add(candidates[0])
	case q.unresolved(server, bare, q.view.patterns):
		if server < 0 {
			asked.pattern.bare = append(asked.pattern.bare, bare)
		} else {
			asked.pattern.addNames(server, bare)
		}
	case len(visible) > 0:
		// The tool exists, but not in the path's toolset. So the name selects nothing.
	case !q.ignore(name):
		q.wrong.UnknownTools = append(q.wrong.UnknownTools, name)
	}
}

// intersect returns the numbers that are in s.
func intersect(numbers []int, s tool.Set) []int {
	return slices.DeleteFunc(slices.Clone(numbers), func(i int) bool { return !s.Has(i) })
}

// lookup splits a name in a request. numbers are the tools of that name, even tools that do not
// exist for the agent. server is the number of the named server, or -1 if the name has no server or
// an unknown one. bare is the name without the server, or "" if no tool can have this name.
func (q *query) lookup(name string) (numbers []int, server int, bare string) {
	b := q.bound
	id, err := tool.ParseID(name)
	if err != nil {
		if !possible(tool.ID{Name: name}) {
			return nil, -1, ""
		}
		return b.names().byName[name], -1, name
	}
	server, ok := b.byServer[id.Server]
	if !ok || !possible(id) {
		return nil, -1, ""
	}
	if n, ok := b.names().byID[id]; ok {
		return []int{n}, server, id.Key()
	}
	return nil, server, id.Key()
}

// unresolved reports whether a tool named bare may appear when a server loads for the first time.
// The server is the one with this number or, for -1, any server that the agent may see.
func (q *query) unresolved(server int, bare string, patterns []pattern) bool {
	if bare == "" {
		return false
	}
	for i, s := range q.bound.servers {
		if (server < 0 || server == i) && q.view.scope[i] && !s.Loaded && matchAll(i, bare, patterns) {
			return true
		}
	}
	return false
}

// exclude removes the named tool from asked. A name without a server removes the tools of that name
// of all servers, because it is safer to remove too many tools than too few. A name that does not
// exist at all is a fault even in a lenient request, because with a typo the tool would stay in the
// selection.
func (q *query) exclude(name string, asked tool.Set) {
	numbers, server, bare := q.lookup(name)
	known := intersect(numbers, q.view.known)
	for _, n := range known {
		asked.Remove(n)
	}
	if len(known) == 0 && !q.unresolved(server, bare, q.view.patterns[1:]) {
		q.wrong.UnknownTools = append(q.wrong.UnknownTools, name)
	}
}

func (q *query) conflict(name string, numbers []int) {
	if !q.ignore(name) {
		q.wrong.Conflicts = append(q.wrong.Conflicts, Conflict{name, q.ids(numbers)})
	}
}

// ids returns the text of the tools' ids, sorted.
func (q *query) ids(numbers []int) []string {
	out := make([]string, len(numbers))
	for i, n := range numbers {
		out[i] = q.bound.tools[n].ID.String()
	}
	slices.Sort(out)
	return out
}

// problems returns all faults of the request in one error, or nil.
func (q *query) problems() error {
	e := &q.wrong
	if e.UnknownToolsets == nil && e.UnknownTools == nil && e.Conflicts == nil {
		return nil
	}
	for _, names := range []*[]string{&e.UnknownToolsets, &e.UnknownTools} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	var parts []string
	if names := e.UnknownToolsets; names != nil {
		parts = append(parts, "Unknown toolset: "+text.List(names, len(names)), q.existingToolsets())
	}
	if names := e.UnknownTools; names != nil {
		parts = append(parts, "Unknown tool: "+text.List(names, len(names)), q.existingTools())
	}
	for _, c := range e.Conflicts {
		parts = append(parts, "Ambiguous tool: "+text.Clip(c.Name, maxEcho)+" is one of "+text.List(c.Tools, maxNamed))
	}
	e.Status, e.Message = http.StatusBadRequest, strings.Join(parts, ". ")
	return e
}

// maxNamed is how many of the existing names a message lists.
const maxNamed = 40

func (q *query) existingToolsets() string {
	names := []string{all, standard}
	for _, g := range q.bound.sorted {
		if q.bound.exists(q.view, g) {
			names = append(names, g.name)
		}
	}
	return "Toolsets that exist: " + text.List(names, maxNamed)
}

func (q *query) existingTools() string {
	names := q.ids(slices.Collect(q.view.visible.Intersect(q.bound.kinds[tool.Tool]).All()))
	if len(names) == 0 {
		return "No tool exists"
	}
	return "Tools that exist: " + text.List(names, maxNamed)
}
