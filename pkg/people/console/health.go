package console

import (
	"net/http"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// A healthPage shows the faults of the gateway: since when, and who can fix them.
type healthPage struct {
	Page
	decide.Health
	Loads []load
	Age   string // since a sync last confirmed the catalog; "": no catalog
	Parts []filePart
}

// A load is the number of enabled servers with a load status.
type load struct {
	Status string
	N      int
}

// health shows the health page.
func (c *Console) health(w http.ResponseWriter, r *http.Request) {
	h := c.o.Service.Health(r.Context())
	p := &healthPage{Page: Page{Title: "Health", Here: "servers"}, Health: h}
	for _, status := range []string{"available", "transient", "permanent", "denied", "unknown"} {
		if n := h.Outcomes[status]; n > 0 {
			p.Loads = append(p.Loads, load{status, n})
		}
	}
	p.Parts = slices.DeleteFunc([]filePart{
		{Name: "mcp_config.json", Part: h.State.Config}, {Name: "policy.cedar", Part: h.State.Policy}, {Name: "catalog", Part: h.State.Catalog},
	}, func(f filePart) bool { return f.Version == "" })
	if h.CatalogAge != nil {
		p.Age = text.Count(int(*h.CatalogAge), "second")
		if minutes := int(*h.CatalogAge) / 60; minutes > 0 {
			p.Age = text.Count(minutes, "minute")
		}
	}
	c.render(w, r, http.StatusOK, "health", p)
}
