package toolset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Bound has the items that the operator offers, as numbers of a [Universe]. It is immutable.
// [Compile] resolves the names of the config once for each Universe, so that [Bound.Select] only
// combines sets.
type Bound struct {
	tools     []Tool
	servers   []Server
	names     func() names // made at the first look-up: most gateways and requests name no tool
	byServer  map[string]int
	own       [][]int                // server → its tools and other items, ascending
	kinds     map[tool.Kind]tool.Set // all items, by kind
	allLoaded bool                   // every server is loaded
	readOnly  tool.Set               // read-only tools, and all prompts and resources

	groups map[string]*group // by folded name
	sorted []*group          // all groups except whole, by name
	whole  *group            // all items

	offered      *group // items of the config's toolsets and enabled list, even if its disabled list has them too
	onlyReadOnly bool   // the config offers only read-only tools
	warnings     config.Faults
}

// names finds the items of the servers by id and by bare name.
type names struct {
	byID   map[tool.ID]int
	byName map[string][]int // bare name → tools, in order
}

// A group is one toolset, or the union of several. Each server has a group too. A server's group
// has only the list own and no set, because the sets of all servers would need memory that grows
// with the square of the catalog.
type group struct {
	name    string
	tools   tool.Set // and prompts and resources; nil: only the items in own
	own     []int    // items of the servers that the group is named after, ascending
	pattern pattern  // tools that are unknown until a server loads, and would be in the group
}

// join adds the items of other to g. The set g.tools must not be nil.
func (g *group) join(other *group) {
	g.tools.AddAll(other.tools)
	for _, i := range other.own {
		g.tools.Add(i)
	}
	g.pattern.join(other.pattern)
}

func (g *group) has(i int) bool {
	_, ok := slices.BinarySearch(g.own, i)
	return ok || g.tools.Has(i)
}

// meets reports whether an item of g is in s.
func (g *group) meets(s tool.Set) bool {
	return g.tools.Meets(s) || slices.ContainsFunc(g.own, s.Has)
}

// newGroup returns a group that has a set.
func (b *Bound) newGroup(name string) *group {
	return &group{name: name, tools: tool.NewSet(len(b.tools))}
}

// set returns everything in g. The caller must not modify it.
func (b *Bound) set(g *group) tool.Set {
	if g.tools != nil && len(g.own) == 0 {
		return g.tools
	}
	whole := b.newGroup("")
	whole.join(g)
	return whole.tools
}

// Compile resolves the operator's toolsets and enabled tools against u. Disabled tools stay in the
// bound, so that agents find them as locked tools.
//
// [config.Parse] has refused the faults that are visible in the config, so Compile does not report
// them again: a toolset that does not exist offers nothing. [Bound.Warnings] has the faults that
// only the servers' lists show, so that a server that loses a tool does not stop the gateway.
func Compile(cfg *config.Config, u Universe) *Bound {
	b := newBound(u)
	b.addGroups(cfg)
	b.offered, b.onlyReadOnly = b.newGroup(""), cfg.Tools.ReadOnly
	for _, name := range cfg.Tools.Toolsets {
		if g := b.groups[fold(name)]; g != nil {
			b.offered.join(g)
		}
	}
	for i, entry := range cfg.Tools.Enabled {
		if problem := b.addEntry(b.offered, entry); problem != "" {
			b.warn(problem+" enabled "+kindOf(entry)+": "+entry, "tools.enabled", i)
		}
	}
	b.disable(cfg.Tools.Disabled)
	b.checkWords(cfg.Words)
	return b
}

// Warnings returns the faults in the config's names and toolsets that only the servers' lists show.
func (b *Bound) Warnings() config.Faults { return slices.Clone(b.warnings) }

func (b *Bound) warn(message, path string, i int) {
	b.warnings = append(b.warnings, config.Fault{Path: fmt.Sprintf("%s[%d]", path, i), Message: message})
}

// kindOf returns the kind of item that an entry of the config names.
func kindOf(entry string) string {
	id, _ := tool.ParseID(entry) // a bare name is the name of a tool
	return id.Kind.String()
}

func newBound(u Universe) *Bound {
	b := &Bound{
		tools: u.Tools, servers: u.Servers, allLoaded: true, byServer: make(map[string]int, len(u.Servers)),
		readOnly: tool.NewSet(len(u.Tools)), kinds: map[tool.Kind]tool.Set{},
	}
	b.names = sync.OnceValue(b.allNames)
	for _, k := range []tool.Kind{tool.Tool, tool.Prompt, tool.Resource} {
		b.kinds[k] = tool.NewSet(len(u.Tools))
	}
	b.whole = b.newGroup(all)
	b.whole.pattern.everything = true
	b.groups = map[string]*group{all: b.whole}
	for i, s := range u.Servers {
		b.byServer[s.Name] = i
		b.allLoaded = b.allLoaded && s.Loaded
	}
	b.own = b.allOwn()
	for _, own := range b.own {
		for _, i := range own {
			b.whole.tools.Add(i)
			if set := b.kinds[u.Tools[i].ID.Kind]; set != nil {
				set.Add(i)
			}
			if u.Tools[i].ReadOnly {
				b.readOnly.Add(i)
			}
		}
	}
	return b
}

// allOwn returns the items of each server. The lists share one array.
func (b *Bound) allOwn() [][]int {
	serverOf, count, last := make([]int, len(b.tools)), make([]int, len(b.servers)), -1
	for i, t := range b.tools {
		if last < 0 || b.servers[last].Name != t.ID.Server { // items of a server are mostly adjacent
			last = -1
			if server, ok := b.byServer[t.ID.Server]; ok {
				last = server
			}
		}
		if serverOf[i] = last; last >= 0 {
			count[last]++
		}
	}
	own, room := make([][]int, len(b.servers)), make([]int, len(b.tools))
	for server, n := range count {
		own[server], room = room[:0:n], room[n:]
	}
	for i, server := range serverOf {
		if server >= 0 {
			own[server] = append(own[server], i)
		}
	}
	return own
}

// allNames returns the names of all items that have a server.
func (b *Bound) allNames() names {
	n := names{make(map[tool.ID]int, len(b.tools)), make(map[string][]int, len(b.tools))}
	for i, t := range b.tools {
		if !b.whole.tools.Has(i) {
			continue
		}
		n.byID[t.ID] = i
		if t.ID.Kind == tool.Tool {
			n.byName[t.ID.Name] = append(n.byName[t.ID.Name], i)
		}
	}
	return n
}

// addGroups makes a group for each server and for each toolset of the config. Names that are equal
// after folding share one group, which has the tools of all of them.
func (b *Bound) addGroups(cfg *config.Config) {
	named := func(name string) *group {
		g := b.groups[fold(name)]
		if g == nil {
			g = &group{name: name}
			b.groups[fold(name)] = g
			b.sorted = append(b.sorted, g)
		}
		return g
	}
	for i, s := range b.servers {
		b.addServer(named(s.Name), i)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Toolsets)) {
		g := named(name)
		if g.tools == nil {
			g.tools = tool.NewSet(len(b.tools))
		}
		for i, entry := range cfg.Toolsets[name] {
			if problem := b.addEntry(g, entry); problem != "" {
				b.warn(problem+" "+kindOf(entry)+": "+entry, config.JoinPath("toolsets", name), i)
			}
		}
	}
	slices.SortFunc(b.sorted, func(x, y *group) int { return strings.Compare(x.name, y.name) })
}

// addServer adds all items of a server to g, and the tools that it may have once it is loaded.
func (b *Bound) addServer(g *group, server int) {
	g.pattern.servers = append(g.pattern.servers, server)
	if g.own == nil {
		g.own = slices.Clip(b.own[server]) // an append copies it
		return
	}
	g.own = append(g.own, b.own[server]...)
	slices.Sort(g.own) // several servers may have the same folded name
}

// addGlob adds the items of a server that have id's kind and match its name, and reports whether
// there are any.
func (b *Bound) addGlob(g *group, server int, id tool.ID) (found bool) {
	g.pattern.servers = append(g.pattern.servers, server) // of a server that is not loaded, further matches are unknown
	for _, i := range b.own[server] {
		if own := b.tools[i].ID; own.Kind == id.Kind && tool.MatchGlob(id.Name, own.Name) {
			g.tools.Add(i)
			found = true
		}
	}
	return found
}

// addEntry adds the items that a config entry names to g. An entry is "server:tool", "server:*", a
// bare name, or the id or glob of prompts or resources. problem is "", "Unknown" or "Ambiguous". A
// bare name that several tools have is ambiguous, and adds none of them.
func (b *Bound) addEntry(g *group, entry string) (problem string) {
	id, err := tool.ParseID(entry)
	if err != nil {
		switch numbers := b.names().byName[entry]; {
		case len(numbers) == 1:
			g.tools.Add(numbers[0])
		case len(numbers) > 1:
			return "Ambiguous"
		case b.allLoaded:
			return "Unknown"
		default:
			g.pattern.bare = append(g.pattern.bare, entry)
		}
		return ""
	}
	server, ok := b.byServer[id.Server]
	if !ok {
		return "Unknown"
	}
	if id.IsGlob() {
		if !b.addGlob(g, server, id) && id.Name != "*" && b.servers[server].Loaded {
			return "Unknown"
		}
		return ""
	}
	if i, ok := b.names().byID[id]; ok {
		g.tools.Add(i)
		return ""
	}
	g.pattern.addNames(server, id.Key())
	if b.servers[server].Loaded {
		return "Unknown"
	}
	return ""
}

// checkWords warns about search words whose glob matches no tool of its server.
func (b *Bound) checkWords(words config.Words) {
	for _, w := range words {
		id, err := tool.ParseID(w.Glob)
		server, ok := b.byServer[id.Server]
		if err != nil || !ok || !b.servers[server].Loaded {
			continue
		}
		if !slices.ContainsFunc(b.own[server], func(i int) bool { return w.Matches(b.tools[i].ID) }) {
			b.warnings = append(b.warnings, config.Fault{Path: config.JoinPath("words", w.Glob), Message: "matches no tool of the server, so these words find nothing"})
		}
	}
}

// disable warns about disabled names that deny nothing, because a typo in a deny list fails open.
// It also warns if the names deny every offered tool. It omits this second warning if there are no
// servers, or if a server is not loaded.
func (b *Bound) disable(entries []string) {
	denied := b.newGroup("")
	for i, entry := range entries {
		if b.addEntry(denied, entry) == "Unknown" {
			b.warn("Unknown disabled "+kindOf(entry)+": "+entry, "tools.disabled", i)
		}
		for _, n := range b.names().byName[entry] { // a bare name denies every tool of that name
			denied.tools.Add(n)
		}
	}
	if b.allLoaded && len(b.servers) > 0 && b.offered.tools.Without(denied.tools).Len() == 0 {
		b.warnings = append(b.warnings, config.Fault{Path: "tools", Message: noToolsLeft})
	}
}
