package console

import (
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// foldParameter makes an item's page show only the definition, for a row of the bulk page. Its
// value is the hash of the definition in that row.
const foldParameter = "fold"

// A foldPage is the definition of an item, or its changes, as a row of the bulk page shows it.
type foldPage struct {
	Page
	itemView
	Changed bool // the row has another definition
}

// fold shows what the summary of an item's page shows. The bulk page takes this text when a person
// opens the row, so it counts as viewed. It has no links except to its own findings, because a link
// would lead elsewhere from the address of the bulk page.
func (c *Console) fold(w http.ResponseWriter, r *http.Request, id tool.ID) {
	t, err := c.o.Service.Tool(r.Context(), id)
	if err != nil {
		c.failed(w, r, "page", err)
		return
	}
	p := &foldPage{Page: Page{Title: shownID(id), Here: "tools"}, itemView: viewOf(r, id, t)}
	p.View, p.anchors = "summary", "of-"+id.Server+"-"+id.Kind.String()+"-"+id.Sum()[:12]+"-"
	p.Changed = tool.Hash(r.URL.Query().Get(foldParameter)) != t.Hash
	p.fillView(c.o.Service, nil)
	for _, list := range [][]pointer{p.Findings, p.Before} {
		for i := range list {
			if list[i].View != p.View {
				list[i].Link = ""
			}
		}
	}
	for i := range p.Blocks {
		p.Blocks[i].Rest = ""
	}
	c.setViewed(w, r, t.Hash)
	c.shown.put(t.Hash, t.Definition)
	c.render(w, r, http.StatusOK, "fold", p)
}
