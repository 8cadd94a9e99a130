package finding

import (
	"iter"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Names has the names of all tools, for a scan of the definitions of one server. The zero Names has
// no names.
type Names struct {
	servers map[string][]string // by name: the servers with a tool of that name
	own     string              // the server whose definitions are scanned
	note    func(string)        // may be nil
}

// NewNames returns the names of the tools.
func NewNames(ids iter.Seq[tool.ID]) Names {
	n := Names{servers: map[string][]string{}}
	for id := range ids {
		n.servers[id.Name] = append(n.servers[id.Name], id.Server)
	}
	return n
}

// For returns the names for a scan of the server's definitions: its own tools do not count as tools
// of other servers.
func (n Names) For(server string) Names { return Names{n.servers, server, n.note} }

// Noting returns names that also call note with each word that a scan looks up, even if no tool has
// that name. The findings of the definitions stay the same until a tool with one of these names is
// added or removed.
func (n Names) Noting(note func(name string)) Names {
	n.note = note
	return n
}

// serverOf returns the server that has a tool of the name, preferably the own server; "": none.
func (n Names) serverOf(name string) string {
	if n.note != nil {
		n.note(name)
	}
	servers := n.servers[name]
	switch {
	case len(servers) == 0:
		return ""
	case slices.Contains(servers, n.own):
		return n.own
	}
	return slices.Min(servers)
}

// distinct reports whether a name is unlikely to be a word of a sentence: it contains an
// underscore or a hyphen, or a capital letter after a small one.
func distinct(name string) bool {
	for i := 1; i < len(name)-1; i++ {
		c, before := name[i], name[i-1]
		if c == '_' || c == '-' || c >= 'A' && c <= 'Z' && before >= 'a' && before <= 'z' {
			return true
		}
	}
	return false
}
