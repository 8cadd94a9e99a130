package state

import (
	"github.com/portcullis-mcp/portcullis/pkg/search"
	"github.com/portcullis-mcp/portcullis/pkg/toolset"
)

// A Selection is the tools that one request is offered, by their numbers in the catalog.
type Selection struct {
	Tools   search.Set
	Ignored []string // names that the request gave and that were dropped
}

// Select returns what the request is offered of the view. The error is a [*toolset.Error], or
// says why the operator's own selection cannot be used; that one is not for agents.
func (v *View) Select(req toolset.Request) (Selection, error) {
	if v.w == nil {
		return Selection{}, nil
	}
	if v.w.boundErr != nil {
		return Selection{}, v.w.boundErr
	}
	sel, err := v.w.bound.Select(req, v.agent)
	if err != nil {
		return Selection{}, err
	}
	out := Selection{Tools: search.NewSet(v.Len()), Ignored: sel.Ignored}
	for u, i := range v.w.offer.numbers {
		if sel.Has(u) && v.Visible(i) {
			out.Tools.Add(i)
		}
	}
	return out, nil
}
