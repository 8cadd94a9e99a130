package toolset

import (
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A pattern describes the unknown tools that a list of names would match: tools that a server may
// have when its list is known.
type pattern struct {
	everything bool
	servers    []int            // every tool of these servers
	names      map[int][]string // [tool.ID.Key], by server
	bare       []string         // bare names on any server
}

// matches reports whether p would match the tool of that name, or the item of that key, if the
// server had it.
func (p pattern) matches(server int, name string) bool {
	names, limited := p.limited(server)
	return !limited || slices.Contains(names, name)
}

// limited returns the only names that p matches on a server, or false if it matches all.
func (p pattern) limited(server int) ([]string, bool) {
	if p.everything || slices.Contains(p.servers, server) {
		return nil, false
	}
	return slices.Concat(p.names[server], p.bare), true
}

// join adds everything that other matches to p.
func (p *pattern) join(other pattern) {
	p.everything = p.everything || other.everything
	p.servers = append(p.servers, other.servers...)
	p.bare = append(p.bare, other.bare...)
	for server, names := range other.names {
		p.addNames(server, names...)
	}
}

func (p *pattern) addNames(server int, names ...string) {
	if p.names == nil {
		p.names = map[int][]string{}
	}
	p.names[server] = append(p.names[server], names...)
}

// overlap reports whether the server can have a tool that every pattern matches.
func overlap(server int, patterns []pattern) bool {
	for i, p := range patterns {
		if names, limited := p.limited(server); limited {
			return slices.ContainsFunc(names, func(name string) bool { return matchAll(server, name, patterns[i+1:]) })
		}
	}
	return true
}

func matchAll(server int, name string, patterns []pattern) bool {
	return !slices.ContainsFunc(patterns, func(p pattern) bool { return !p.matches(server, name) })
}

// possible reports whether a server can have an item of that name.
func possible(id tool.ID) bool {
	if id.Kind == tool.Resource {
		return tool.ValidURI(id.Name) == nil
	}
	return tool.ValidName(id.Name) == nil
}
