package state

import (
	"github.com/portcullis-mcp/portcullis/pkg/search"
	"github.com/portcullis-mcp/portcullis/pkg/toolset"
)

// A Selection is the tools that one request is offered, by their numbers in the catalog.
type Selection struct {
	Tools   search.Set
	Ignored []string // names that the request gave and that were dropped
	Narrows bool     // the request asked for less than everything

	bound *toolset.Bound
	sel   toolset.Selection
	view  *View
}

// HasServer reports whether a server exists for this request: one of its tools
// is offered, or could be as soon as they are known.
func (s Selection) HasServer(name string) bool { return s.sel.HasServer(name) }

// ServerToolsets returns the toolsets that each server belongs to, as far as
// they exist for the agent.
func (s Selection) ServerToolsets() map[string][]string {
	if s.bound == nil {
		return nil
	}
	return s.bound.ServerToolsets(s.view.agent)
}

// Select returns what the request is offered of the view. The error is a [*toolset.Error], or
// says why the operator's own selection cannot be used; that one is not for agents.
func (v *View) Select(req toolset.Request) (Selection, error) {
	if v.r == nil {
		return Selection{}, nil
	}
	if v.r.boundErr != nil {
		return Selection{}, v.r.boundErr
	}
	sel, err := v.r.bound.Select(req, v.agent)
	if err != nil {
		return Selection{}, err
	}
	out := Selection{
		Tools: search.NewSet(v.Len()), Ignored: sel.Ignored, Narrows: req.Narrows(),
		bound: v.r.bound, sel: sel, view: v,
	}
	for u, i := range v.r.inventory.numbers {
		if sel.Has(u) && v.Visible(i) {
			out.Tools.Add(i)
		}
	}
	return out, nil
}
