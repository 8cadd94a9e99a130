package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A comparePage compares two definitions of an item by their hashes, which are in the history.
// Records store the texts of the current and of the last approved definition. For other definitions
// they store only the decisions.
type comparePage struct {
	Page
	Tool     decide.Tool
	Link     string // to the item's page
	Sides    [2]side
	Line     string
	Blocks   []block
	Complete bool // both texts are stored
}

// A side is one of the two definitions.
type side struct {
	Name, Hash string
	StoredAs   string // why its text is stored; "": the text is not stored
	Verdicts   []decide.Verdict
}

// keptApproved is the reason for storing the last approved definition.
const keptApproved = "approved last"

// compares reports whether an address names two definitions of an item.
func compares(query url.Values) bool { return query.Has("from") && query.Has("to") }

// compare shows the changes from one definition to another, if both texts are stored.
func (c *Console) compare(w http.ResponseWriter, r *http.Request, id tool.ID) {
	t, err := c.o.Service.Tool(r.Context(), id)
	if err != nil {
		c.failed(w, r, "compare", err)
		return
	}
	p := &comparePage{Page: Page{Title: "Two definitions of " + shownID(id), Here: "tools"}, Tool: t, Link: toolLink(rootOf(r), id, nil)}
	var raw [2]json.RawMessage
	for i, name := range []string{"from", "to"} {
		hash := tool.Hash(r.URL.Query().Get(name))
		if _, ok := hash.Sum(); !ok {
			c.problem(w, r, http.StatusUnprocessableEntity, name+" is not the hash of a "+
				"definition. A hash has 64 hex digits; the history shows the hashes.")
			return
		}
		p.Sides[i], raw[i] = sideOf(t, name, hash)
	}
	if p.Complete = raw[0] != nil && raw[1] != nil; p.Complete {
		before, now := tool.KeptItem(id.Kind, raw[0]), tool.KeptItem(id.Kind, raw[1])
		p.Line = c.o.Service.Change(before, now).Line
		limit := newTextLimit()
		for _, x := range textsOf("raw", before, now) {
			b := blockOf(limit, x, nil, false, false)
			b.Rest = p.Link + "/text?of=" + x.name
			if p.Sides[1].StoredAs == keptApproved {
				b.Rest += "&from=approved"
			}
			p.Blocks = append(p.Blocks, b)
		}
	}
	c.render(w, r, http.StatusOK, "compare", p)
}

// sideOf returns the decisions in the record about the definition with this hash, and the text if
// it is stored.
func sideOf(t decide.Tool, name string, hash tool.Hash) (s side, raw json.RawMessage) {
	s = side{Name: name, Hash: string(hash)}
	if t.Record != nil {
		s.Verdicts = slices.DeleteFunc(slices.Clone(t.Record.Verdicts), func(v decide.Verdict) bool { return v.Hash != hash })
	}
	switch {
	case hash == t.Hash:
		s.StoredAs, raw = "now", t.Definition
	case t.Record != nil && hash == t.Record.ApprovedHash && t.Approved != nil:
		s.StoredAs, raw = keptApproved, t.Approved
	}
	return s, raw
}
