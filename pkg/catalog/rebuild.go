package catalog

import (
	"fmt"
	"slices"
)

// Rebuild makes the snapshot that [Build] would make of in, where a server that is Same has the
// tools, the other items and the records that prev has of it. prev may be nil, if no server is Same.
func Rebuild(prev *Snapshot, in Input) (*Snapshot, error) {
	servers := slices.Clone(in.Servers)
	for i := range servers {
		s := &servers[i]
		if !s.Same {
			continue
		}
		if prev == nil {
			return nil, fmt.Errorf("build catalog: there is no catalog before that has %q", s.Name)
		}
		held, ok := prev.Server(s.Name)
		if !ok {
			return nil, fmt.Errorf("build catalog: the catalog before does not have %q", s.Name)
		}
		s.Tools, s.Same = prev.inputs(held), false
	}
	in.Servers = servers
	return Build(in)
}

// inputs returns the tools and other items of a server of the snapshot, with their records.
func (s *Snapshot) inputs(server Server) []ToolInput {
	list := make([]ToolInput, 0, server.Tools+server.Items)
	for i := range server.Numbers() {
		list = append(list, ToolInput{Definition: s.Tool(i).Definition, Record: s.Record(i)})
	}
	return list
}
