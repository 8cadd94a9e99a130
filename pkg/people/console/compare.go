package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A comparePage shows two definitions of an item, which an entry of its history names by their
// hashes. The text is kept of the definition of now and of the one approved last; of others only
// what was decided about them.
type comparePage struct {
	Page
	Tool     decide.Tool
	Link     string // to the page about it
	Sides    [2]side
	Line     string
	Blocks   []block
	Complete bool // the texts of both are kept
}

// A side is one of the two definitions.
type side struct {
	Name, Hash string
	Kept       string // as what its text is kept; "": it is not
	Verdicts   []decide.Verdict
}

// keptApproved says that a definition is kept because it is the one approved last.
const keptApproved = "approved last"

// compares reports whether an address asks for two definitions of an item.
func compares(query url.Values) bool { return query.Has("from") && query.Has("to") }

// compare shows what changed from one definition to another, as far as both are kept.
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
			c.problem(w, r, http.StatusUnprocessableEntity, name+" is no hash of a definition; it takes 64 hex digits, as the history has them.")
			return
		}
		p.Sides[i], raw[i] = sideOf(t, name, hash)
	}
	if p.Complete = raw[0] != nil && raw[1] != nil; p.Complete {
		before, now := tool.KeptItem(id.Kind, raw[0]), tool.KeptItem(id.Kind, raw[1])
		p.Line = c.o.Service.Change(before, now).Line
		limit := newTextLimit()
		for _, x := range textsOf("raw", before, now) {
			b := blockOf(limit, x.title, x.diff(x.before, x.now), nil, false, false)
			b.Rest = p.Link + "/text?of=" + x.name
			if p.Sides[1].Kept == keptApproved {
				b.Rest += "&from=approved"
			}
			p.Blocks = append(p.Blocks, b)
		}
	}
	c.render(w, r, http.StatusOK, "compare", p)
}

// sideOf returns what is known of the definition with a hash, and its text if that is kept.
func sideOf(t decide.Tool, name string, hash tool.Hash) (s side, raw json.RawMessage) {
	s = side{Name: name, Hash: string(hash)}
	if t.Record != nil {
		s.Verdicts = slices.DeleteFunc(slices.Clone(t.Record.Verdicts), func(v decide.Verdict) bool { return v.Hash != hash })
	}
	switch {
	case hash == t.Hash:
		s.Kept, raw = "now", t.Definition
	case t.Record != nil && hash == t.Record.ApprovedHash && t.Approved != nil:
		s.Kept, raw = keptApproved, t.Approved
	}
	return s, raw
}
