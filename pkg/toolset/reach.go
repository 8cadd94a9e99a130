package toolset

import (
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// A reach is which tools a list of names could come to mean, beside those that are
// known: of a server whose tools are not known, any that it may turn out to have.
type reach struct {
	everything bool
	whole      []int            // servers of which it takes every tool
	names      map[int][]string // bare names, by server
	bare       []string         // bare names on any server
}

// has reports whether the tool of that name, if the server should come to have it, is meant.
func (r *reach) has(server int, name string) bool {
	return r.everything || slices.Contains(r.whole, server) || slices.Contains(r.bare, name) ||
		slices.Contains(r.names[server], name)
}

// limited returns the only names that are meant on a server, or false if all are.
func (r *reach) limited(server int) ([]string, bool) {
	if r.everything || slices.Contains(r.whole, server) {
		return nil, false
	}
	return slices.Concat(r.names[server], r.bare), true
}

// join makes r mean what other means, too.
func (r *reach) join(other *reach) {
	r.everything = r.everything || other.everything
	r.whole = append(r.whole, other.whole...)
	r.bare = append(r.bare, other.bare...)
	for server, names := range other.names {
		r.addNames(server, names...)
	}
}

func (r *reach) addNames(server int, names ...string) {
	if r.names == nil {
		r.names = map[int][]string{}
	}
	r.names[server] = append(r.names[server], names...)
}

// overlap reports whether there can be a tool on the server that every one of reaches means.
func overlap(server int, reaches ...*reach) bool {
	for i, r := range reaches {
		names, limited := r.limited(server)
		if !limited {
			continue
		}
		return slices.ContainsFunc(names, func(name string) bool {
			return hasAll(server, name, reaches[i+1:])
		})
	}
	return true
}

func hasAll(server int, name string, reaches []*reach) bool {
	return !slices.ContainsFunc(reaches, func(r *reach) bool { return !r.has(server, name) })
}

// possible reports whether a server can have a tool of that name.
func possible(name string) bool { return tool.ValidName(name) == nil }
