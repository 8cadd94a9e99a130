package state

import "github.com/portcullis-mcp/portcullis/pkg/rules/tool"

// Apps has the tools that concern MCP Apps, visible or not. The caller must not change it.
type Apps struct {
	Paged   tool.Set         // tools whose results a page shows
	AppOnly tool.Set         // tools that only pages call: models do not see them
	Pages   map[string][]int // tools by the URI of their page, in the order of their numbers
}

// Apps returns the tools that concern MCP Apps.
func (v *View) Apps() Apps {
	if v.r == nil {
		return Apps{}
	}
	return v.r.inventory.apps()
}

// findApps returns the configured tools that concern MCP Apps.
func (inv *inventory) findApps() Apps {
	var out Apps
	for i := range inv.snap.Len() {
		if inv.rows[i].server < 0 {
			continue
		}
		app := tool.Definition{Raw: inv.snap.Raw(i)}.App()
		if app.Page != "" {
			if out.Pages == nil {
				out.Paged, out.Pages = tool.NewSet(inv.snap.Len()), map[string][]int{}
			}
			out.Paged.Add(i)
			out.Pages[app.Page] = append(out.Pages[app.Page], i)
		}
		if !app.ForModels {
			if out.AppOnly == nil {
				out.AppOnly = tool.NewSet(inv.snap.Len())
			}
			out.AppOnly.Add(i)
		}
	}
	return out
}
