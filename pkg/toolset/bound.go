package toolset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// A Bound is what the operator offers, resolved against a [Universe]. It is
// immutable and made once for each; [Bound.Select] then works on sets.
type Bound struct {
	tools     []Tool
	byID      map[tool.ID]int
	byName    map[string][]int // bare name → tools, in order
	servers   []Server
	byServer  map[string]int
	home      []int   // tool → index in servers, -1: not configured
	own       [][]int // server → its tools
	allLoaded bool    // every server is
	groups    map[string]*group
	sorted    []*group // by name
	whole     *group   // everything there is

	offered  set    // the toolsets and enabled tools, whether disabled or not
	reach    *reach // what offered may come to hold
	readOnly bool   // the operator's switch
	reading  set    // tools that are read-only
	warnings config.Faults
}

// A group is one toolset: a named one, or a server.
type group struct {
	name  string
	tools set
	reach *reach
}

// Compile resolves the operator's toolsets and enabled tools against u. What the operator
// disabled stays in the bound: it is found, and locked, where it would have been
// offered.
//
// The error is a [config.Faults] with every fault at once; it holds one that the
// config alone shows: a toolset that does not exist, or nothing offered at all. What
// only the servers' lists show is in [Bound.Warnings], so that a server which loses a tool does
// not take the gateway down.
func Compile(cfg *config.Config, u Universe) (*Bound, error) {
	b := newBound(u)
	b.addGroups(cfg)
	b.readOnly = cfg.Tools.ReadOnly
	b.offered, b.reach = newSet(len(b.tools)), &reach{}
	var faults config.Faults
	for i, name := range cfg.Tools.Toolsets {
		g := b.groups[fold(name)]
		switch {
		case fold(name) == all:
			g = b.whole
		case g == nil:
			faults = append(faults, fault("Unknown toolset: "+name, "tools.toolsets", i))
			continue
		}
		b.offered.unite(g.tools)
		b.reach.join(g.reach)
	}
	for i, entry := range cfg.Tools.Enabled {
		g, problem := b.entry(entry)
		if problem != "" {
			b.warn(problem+" enabled tool: "+entry, "tools.enabled", i)
		}
		b.offered.unite(g.tools)
		b.reach.join(g.reach)
	}
	nothing := b.disable(cfg.Tools.Disabled)
	if len(cfg.Tools.Toolsets) == 0 && len(cfg.Tools.Enabled) == 0 {
		faults = append(faults, config.Fault{Path: "tools", Message: noToolsLeft})
	}
	if len(faults) > 0 {
		return nil, append(faults, b.warnings...)
	}
	if nothing {
		b.warnings = append(b.warnings, config.Fault{Path: "tools", Message: noToolsLeft})
	}
	return b, nil
}

// Warnings returns what the servers' lists show to be wrong with the operator's names, and
// with those of the toolsets.
func (b *Bound) Warnings() config.Faults { return slices.Clone(b.warnings) }

func fault(message, path string, i int) config.Fault {
	return config.Fault{Path: fmt.Sprintf("%s[%d]", path, i), Message: message}
}

func (b *Bound) warn(message, path string, i int) {
	b.warnings = append(b.warnings, fault(message, path, i))
}

func newBound(u Universe) *Bound {
	b := &Bound{
		tools: u.Tools, servers: u.Servers, allLoaded: true,
		byID: make(map[tool.ID]int, len(u.Tools)), byName: make(map[string][]int, len(u.Tools)), byServer: map[string]int{},
		home: make([]int, len(u.Tools)), own: make([][]int, len(u.Servers)), groups: map[string]*group{}, reading: newSet(len(u.Tools)),
		whole: &group{name: all, tools: newSet(len(u.Tools)), reach: &reach{everything: true}},
	}
	for i, s := range u.Servers {
		b.byServer[s.Name] = i
		b.allLoaded = b.allLoaded && s.Loaded
	}
	for i, t := range u.Tools {
		b.whole.tools.add(i)
		b.byID[t.ID] = i
		b.byName[t.ID.Name] = append(b.byName[t.ID.Name], i)
		if t.ReadOnly {
			b.reading.add(i)
		}
		b.home[i] = -1
		if home, ok := b.byServer[t.ID.Server]; ok {
			b.home[i] = home
			b.own[home] = append(b.own[home], i)
		}
	}
	return b
}

// addGroups makes a group of each server and of each named toolset.
func (b *Bound) addGroups(cfg *config.Config) {
	named := func(name string) *group { // of several names that fold to one, the tools of all
		g := b.groups[fold(name)]
		if g == nil {
			g = &group{name: name, tools: newSet(len(b.tools)), reach: &reach{}}
			b.groups[fold(name)] = g
		}
		return g
	}
	for i, s := range b.servers {
		g := named(s.Name)
		g.reach.whole = append(g.reach.whole, i)
		for _, n := range b.own[i] {
			g.tools.add(n)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Toolsets)) {
		g := named(name)
		for i, entry := range cfg.Toolsets[name] {
			member, problem := b.entry(entry)
			if problem != "" {
				b.warn(problem+" tool: "+entry, config.JoinPath("toolsets", name), i)
			}
			g.tools.unite(member.tools)
			g.reach.join(member.reach)
		}
	}
	for _, g := range b.groups {
		b.sorted = append(b.sorted, g)
	}
	slices.SortFunc(b.sorted, func(x, y *group) int { return strings.Compare(x.name, y.name) })
}

// entry resolves "server:tool", "server:*" or a bare name of the config. The problem
// is what is wrong with it: "Unknown" or, for a bare name of several tools, which then
// stands for none, "Ambiguous".
func (b *Bound) entry(entry string) (g *group, problem string) {
	g = &group{tools: newSet(len(b.tools)), reach: &reach{}}
	id, err := tool.ParseID(entry)
	if err != nil {
		numbers := b.byName[entry]
		switch len(numbers) {
		case 0:
			if b.allLoaded {
				return g, "Unknown"
			}
			g.reach.bare = []string{entry}
		case 1:
			g.tools.add(numbers[0])
		default:
			return g, "Ambiguous"
		}
		return g, ""
	}
	server, ok := b.byServer[id.Server]
	switch {
	case !ok:
		return g, "Unknown"
	case id.Name == "*":
		g.reach.whole = []int{server}
		for _, n := range b.own[server] {
			g.tools.add(n)
		}
		return g, ""
	}
	if i, ok := b.byID[id]; ok {
		g.tools.add(i)
		return g, ""
	}
	g.reach.addNames(server, id.Name)
	if b.servers[server].Loaded {
		return g, "Unknown"
	}
	return g, ""
}

// disable warns of names that deny nothing, because a typo in a list that denies fails
// open. It reports whether nothing that is offered stays callable.
func (b *Bound) disable(entries []string) (nothing bool) {
	left := b.offered.clone()
	for i, entry := range entries {
		g, problem := b.entry(entry)
		if problem == "Unknown" {
			b.warn("Unknown disabled tool: "+entry, "tools.disabled", i)
		}
		for n := range g.tools.all() {
			left.remove(n)
		}
		for _, n := range b.byName[entry] { // a bare name denies every tool of that name
			left.remove(n)
		}
	}
	return left.len() == 0 && b.allLoaded
}
