package toolset

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// A query resolves the names of one request, and collects what is wrong with them.
type query struct {
	bound   *Bound
	view    view
	lenient bool

	within          set // what is visible in the toolset of the path
	unknownToolsets []string
	unknownTools    []string
	conflicts       []Conflict
	ignored         []string
}

// path resolves the toolset of the path. An unknown one is never ignored: nothing would
// be left of the request.
func (q *query) path(name string) *group {
	g, ok := q.toolset(name)
	if name != "" && !ok {
		q.unknownToolsets = append(q.unknownToolsets, name)
	}
	q.within = q.view.visible.clone()
	q.within.keep(g.tools)
	return g
}

// toolset returns the toolset of that name, "" standing for everything, or an empty one if
// none of that name exists for the agent.
func (q *query) toolset(name string) (*group, bool) {
	switch fold(name) {
	case "", all, standard:
		return q.bound.whole, true
	}
	if g := q.bound.groups[fold(name)]; g != nil && q.bound.exists(q.view, g) {
		return g, true
	}
	return &group{tools: newSet(len(q.bound.tools)), reach: &reach{}}, false
}

// asked returns what the select lists choose within the path's toolset.
func (q *query) asked(req Request, within *group) *group {
	if !req.toolsets.given && !req.tools.given {
		return &group{tools: q.within.clone(), reach: within.reach}
	}
	asked := &group{tools: newSet(len(q.bound.tools)), reach: &reach{}}
	for _, name := range req.toolsets.names {
		g, ok := q.toolset(name)
		switch {
		case ok:
			asked.tools.unite(g.tools)
			asked.reach.join(g.reach)
		case q.lenient:
			q.ignored = append(q.ignored, name)
		default:
			q.unknownToolsets = append(q.unknownToolsets, name)
		}
	}
	for _, name := range req.tools.names {
		q.tool(name, asked)
	}
	asked.tools.keep(q.within)
	return asked
}

// tool adds the named tool to asked.
func (q *query) tool(name string, asked *group) {
	numbers, server, bare := q.lookup(name)
	candidates := slices.DeleteFunc(slices.Clone(numbers), func(n int) bool { return !q.view.visible.has(n) })
	if len(candidates) > 1 { // the path may tell them apart
		candidates = slices.DeleteFunc(candidates, func(n int) bool { return !q.within.has(n) })
		if len(candidates) > 1 {
			q.conflict(name, candidates)
			return
		}
	}
	switch {
	case len(candidates) == 1:
		asked.tools.add(candidates[0])
	case q.unresolved(server, bare, q.view.reaches):
		if server < 0 {
			asked.reach.bare = append(asked.reach.bare, bare)
		} else {
			asked.reach.addNames(server, bare)
		}
	case len(numbers) > 0 && q.anyVisible(numbers):
		// It exists, and lies outside the path's toolset.
	default:
		q.unknown(name)
	}
}

func (q *query) anyVisible(numbers []int) bool {
	return slices.ContainsFunc(numbers, q.view.visible.has)
}

// lookup splits a name of a request. numbers are the tools of that name, whether the agent
// may know of them or not; server is -1 for a bare name, and bare is "" for a name that no tool can have.
func (q *query) lookup(name string) (numbers []int, server int, bare string) {
	b := q.bound
	id, err := tool.ParseID(name)
	if err != nil {
		if !possible(name) {
			return nil, -1, ""
		}
		return b.byName[name], -1, name
	}
	server, ok := b.byServer[id.Server]
	if !ok || !possible(id.Name) {
		return nil, -1, ""
	}
	if n, ok := b.byID[id]; ok {
		return []int{n}, server, id.Name
	}
	return nil, server, id.Name
}

// unresolved reports whether a tool of that name may show up once its server has loaded, on
// the server or, for -1, on any that the agent may see.
func (q *query) unresolved(server int, bare string, reaches []*reach) bool {
	if bare == "" {
		return false
	}
	for i, s := range q.bound.servers {
		if (server < 0 || server == i) && q.view.scope[i] && !s.Loaded && hasAll(i, bare, reaches) {
			return true
		}
	}
	return false
}

// exclude removes the named tool from asked; a bare name means every tool of that name, since in
// a list that takes away the wider reading is the safe one. A name that exists for nobody
// is a fault even in a lenient request: a typo here would leave a tool in.
func (q *query) exclude(name string, asked set) {
	numbers, server, bare := q.lookup(name)
	known := false
	for _, n := range numbers {
		if q.view.known.has(n) {
			known = true
			asked.remove(n)
		}
	}
	if !known && !q.unresolved(server, bare, q.view.reaches[1:]) {
		q.unknownTools = append(q.unknownTools, name)
	}
}

func (q *query) unknown(name string) {
	if q.lenient {
		q.ignored = append(q.ignored, name)
		return
	}
	q.unknownTools = append(q.unknownTools, name)
}

func (q *query) conflict(name string, numbers []int) {
	if q.lenient {
		q.ignored = append(q.ignored, name)
		return
	}
	c := Conflict{Name: name}
	for _, n := range numbers {
		c.Tools = append(c.Tools, q.bound.tools[n].ID.String())
	}
	slices.Sort(c.Tools)
	q.conflicts = append(q.conflicts, c)
}

// problems returns everything that is wrong with the request, in one error, or nil.
func (q *query) problems() error {
	if q.unknownToolsets == nil && q.unknownTools == nil && q.conflicts == nil {
		return nil
	}
	for _, names := range []*[]string{&q.unknownToolsets, &q.unknownTools} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	var parts []string
	if q.unknownToolsets != nil {
		parts = append(parts, "Unknown toolset: "+say(q.unknownToolsets, len(q.unknownToolsets)), q.existingToolsets())
	}
	if q.unknownTools != nil {
		parts = append(parts, "Unknown tool: "+say(q.unknownTools, len(q.unknownTools)), q.existingTools())
	}
	for _, c := range q.conflicts {
		parts = append(parts, fmt.Sprintf("Ambiguous tool: %s is one of %s", clip(c.Name), say(c.Tools, maxSaid)))
	}
	return &Error{
		Status: http.StatusBadRequest, Message: strings.Join(parts, ". "),
		UnknownToolsets: q.unknownToolsets, UnknownTools: q.unknownTools, Conflicts: q.conflicts,
	}
}

// maxSaid is how many of the names that exist are said.
const maxSaid = 40

func (q *query) existingToolsets() string {
	var names []string
	for _, g := range q.bound.sorted {
		if q.bound.exists(q.view, g) {
			names = append(names, g.name)
		}
	}
	return "Toolsets that exist: " + say(append([]string{all, standard}, names...), maxSaid)
}

func (q *query) existingTools() string {
	var names []string
	for n := range q.view.visible.all() {
		names = append(names, q.bound.tools[n].ID.String())
	}
	if len(names) == 0 {
		return "No tool exists"
	}
	slices.Sort(names)
	return "Tools that exist: " + say(names, maxSaid)
}

// say lists at most limit of the names in one line.
func say(names []string, limit int) string {
	said := make([]string, 0, min(limit, len(names)))
	for _, name := range names[:min(limit, len(names))] {
		said = append(said, clip(name))
	}
	text := strings.Join(said, ", ")
	if more := len(names) - len(said); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
