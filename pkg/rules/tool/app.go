package tool

import (
	"bytes"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// AppScheme is the URI scheme of the pages of MCP Apps.
const AppScheme = "ui://"

// An App is what the definition of a tool says about MCP Apps.
type App struct {
	Page string // URI of the page that shows the tool's results; "": none

	// Callers of the tool. A definition without visibility has both.
	ForModels bool // models see and call it
	ForPages  bool // pages of its server call it
}

// App returns what d, the definition of a tool, says about MCP Apps. A member of the wrong type
// counts as absent.
func (d Definition) App() App {
	out := App{ForModels: true, ForPages: true}
	if !bytes.Contains(d.Raw, []byte(`"ui`)) && !bytes.Contains(d.Raw, []byte(`\u`)) {
		return out // most definitions; a name can contain escapes
	}
	meta := rawjson.Get(d.Raw, "_meta")
	ui := rawjson.Get(meta, "ui")
	page := rawjson.Text(rawjson.Get(ui, "resourceUri"))
	if page == "" {
		page = rawjson.Text(rawjson.Get(meta, "ui/resourceUri")) // the older spelling
	}
	if strings.HasPrefix(page, AppScheme) {
		out.Page = page
	}
	if list, err := rawjson.Elements(rawjson.Get(ui, "visibility")); err == nil {
		var callers []string
		for _, caller := range list {
			callers = append(callers, rawjson.Text(caller))
		}
		out.ForModels, out.ForPages = slices.Contains(
			callers,
			"model",
		), slices.Contains(
			callers,
			"app",
		)
	}
	return out
}
