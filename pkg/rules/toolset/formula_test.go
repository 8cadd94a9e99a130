package toolset_test

import (
	"slices"
	"strings"
)

// The functions here define a selection a second time, by names instead of numbers, as the formula
// in the document does.

// matching returns the ids that match an entry in the operator's settings.
func (w *scenario) matching(entry string) []string {
	var out []string
	for _, x := range w.universe.Tools {
		if id := x.ID.String(); id == entry || entry == x.ID.Server+":*" {
			out = append(out, id)
		}
	}
	return out
}

// group returns the ids of a toolset.
func (w *scenario) group(name string) []string {
	name = strings.ToLower(name)
	var out []string
	for _, x := range w.universe.Tools {
		if name == "all" || name == "default" || name == x.ID.Server {
			out = append(out, x.ID.String())
		}
	}
	for _, entry := range w.cfg.Toolsets[name] {
		out = append(out, w.matching(entry)...)
	}
	return out
}

func (w *scenario) inScope() []string {
	var out []string
	for _, x := range w.universe.Tools {
		if slices.Contains(w.agent.Servers, "*") || slices.Contains(w.agent.Servers, x.ID.Server) {
			out = append(out, x.ID.String())
		}
	}
	return out
}

// offeredByOperator returns all ids that the operator offers. Disabled tools are among them,
// because agents can find them locked.
func (w *scenario) offeredByOperator() []string {
	var out []string
	for _, name := range w.cfg.Tools.Toolsets {
		out = append(out, w.group(name)...)
	}
	for _, entry := range w.cfg.Tools.Enabled {
		out = append(out, w.matching(entry)...)
	}
	return out
}

func both(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}

// emptyServer reports whether a toolset is or contains a server that the agent sees and that has no
// tools. Such a toolset exists although it offers nothing.
func (w *scenario) emptyServer(name string) bool {
	names := []string{strings.ToLower(name) + ":*"}
	names = append(names, w.cfg.Toolsets[strings.ToLower(name)]...)
	for _, s := range w.universe.Servers {
		whole := s.Name + ":*"
		if len(w.matching(whole)) > 0 || !slices.Contains(names, whole) {
			continue
		}
		if !slices.Contains(w.agent.Servers, "*") && !slices.Contains(w.agent.Servers, s.Name) {
			continue
		}
		in := func(groups, entries []string) bool {
			for _, g := range groups {
				if g == "all" || g == s.Name || slices.Contains(w.cfg.Toolsets[g], whole) {
					return true
				}
			}
			return slices.Contains(entries, whole)
		}
		if in(w.cfg.Tools.Toolsets, w.cfg.Tools.Enabled) && (w.agent.Toolsets == nil || in(w.agent.Toolsets, nil)) {
			return true
		}
	}
	return false
}

// known returns the ids that the agent may know of.
func (w *scenario) known() []string {
	if w.agent.Toolsets == nil {
		return w.inScope()
	}
	var own []string
	for _, name := range w.agent.Toolsets {
		own = append(own, w.group(name)...)
	}
	return both(w.inScope(), own)
}

// exists reports whether a toolset exists for an agent that sees these ids.
func (w *scenario) exists(name string, visible []string) bool {
	switch strings.ToLower(name) {
	case "", "all", "default":
		return true
	}
	return len(both(w.group(name), visible)) > 0 || w.emptyServer(name)
}

// asked returns the ids in the two lists of a request, limited to the ids of its path.
func (w *scenario) asked(in input, visible, path []string) (ids []string, unknown bool) {
	for _, name := range in.toolsets {
		if w.exists(name, visible) {
			ids = append(ids, w.group(name)...)
		} else {
			unknown = true
		}
	}
	for _, name := range in.tools {
		found := w.named(name, visible)
		if len(found) > 1 {
			found = w.named(name, path)
			if len(found) > 1 {
				unknown = true
				continue
			}
		} else if len(found) == 0 {
			unknown = true
		}
		ids = append(ids, found...)
	}
	return ids, unknown
}

// formula returns the ids that the request is offered, in order, or reports that it is refused.
func (w *scenario) formula(in input) (offer []string, refused bool) {
	known := w.known()
	visible := both(known, w.offeredByOperator())
	path := visible
	if in.path != "" {
		path = both(visible, w.group(in.path))
		refused = !w.exists(in.path, visible)
	}
	chosen := path
	if in.toolsets != nil || in.tools != nil {
		asked, unknown := w.asked(in, visible, path)
		chosen = both(path, asked)
		refused = refused || unknown && !in.lenient
	}
	for _, name := range in.exclude {
		ids := w.named(name, known)
		refused = refused || len(ids) == 0
		chosen = slices.DeleteFunc(slices.Clone(chosen), func(id string) bool { return slices.Contains(ids, id) })
	}
	for _, x := range w.universe.Tools {
		if slices.Contains(chosen, x.ID.String()) && (x.ReadOnly || !in.readOnly && !w.cfg.Tools.ReadOnly) {
			offer = append(offer, x.ID.String())
		}
	}
	narrows := in.path != "" || in.toolsets != nil || in.tools != nil || len(in.exclude) > 0 || in.readOnly
	if refused || len(offer) == 0 && narrows {
		return nil, true
	}
	return offer, false
}

// named returns the ids in the list that a name in a request selects.
func (w *scenario) named(name string, ids []string) []string {
	var out []string
	for _, id := range ids {
		_, bare, _ := strings.Cut(id, ":")
		if id == name || bare == name {
			out = append(out, id)
		}
	}
	return out
}
