package gateway

import (
	"encoding/json"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// directName returns the name of a tool in direct mode, or of a prompt in both modes.
func (s *Session) directName(id tool.ID) string {
	if s.bare {
		return id.Name
	}
	return id.Direct()
}

// listDirect returns a page of the callable tools, and request_access where it is callable.
func (s *Session) listDirect(cursor string) (json.RawMessage, error) {
	l := listing{
		kind: "tools", member: "tools", items: s.directTools().All(),
		name: s.directName, entry: s.toolDefinition,
	}
	if _, exists := s.findDirect(tool.Tool, requestAccess); s.canAsk() && !exists {
		l.first = requestAccessDefinition
	}
	return s.page(l, cursor)
}

// directTools returns the callable tools. A host that shows pages gets the tools that only pages
// call, too: it offers them to no model, and it checks a page's calls against the list.
func (s *Session) directTools() tool.Set {
	if s.caller.Apps {
		return s.nameable.Intersect(s.view.Callable())
	}
	callable, _ := s.split()
	return callable
}

// toolDefinition returns tool i for a list.
func (s *Session) toolDefinition(i int, name string) json.RawMessage {
	raw := agentDefinition(s.view.Tool(i).Definition, name, s.view.Hints(i))
	if s.caller.Apps && s.view.Apps().Paged.Has(i) {
		return s.withListedPage(i, raw)
	}
	return raw
}

// DeclaresOutput reports whether a tool's definition in tools/list has an output schema. The
// gateway's own tools have none.
func (s *Session) DeclaresOutput(name string) bool {
	if s.down || !s.direct && !s.listsPaged() {
		return false
	}
	i, ok := s.findDirect(tool.Tool, name)
	return ok && s.view.Tool(i).Definition.OutputSchema != nil
}

// findDirect returns the number of the tool or prompt whose name in direct mode is name: the first
// callable one, or otherwise the first locked one.
func (s *Session) findDirect(kind tool.Kind, name string) (int, bool) {
	first, ok := 0, false
	for _, i := range s.namedItems(kind, name) {
		if s.view.Status(i) == lock.None {
			return i, true
		}
		if !ok {
			first, ok = i, true
		}
	}
	return first, ok
}

// namedItems returns the tools or prompts whose name in direct mode is name, in the order of their
// ids.
func (s *Session) namedItems(kind tool.Kind, name string) []int {
	var out []int
	offered := s.nameable
	if kind == tool.Prompt {
		offered = s.sel.Prompts
	}
	add := func(id tool.ID) {
		id.Kind = kind
		if i, ok := s.view.Find(id); ok && offered.Has(i) && s.directName(id) == name {
			out = append(out, i)
		}
	}
	if s.bare {
		for _, srv := range s.view.Servers() {
			add(tool.ID{Server: srv.Config.Name, Name: name})
		}
		return out
	}
	ids, cut := tool.ParseDirect(name)
	for _, id := range ids {
		add(id)
	}
	if len(out) == 0 && cut {
		for i := range offered.All() { // a shortened name does not show its server
			if s.directName(s.view.ID(i)) == name {
				out = append(out, i)
			}
		}
	}
	slices.Sort(out)
	return out
}
