package approval

import (
	"net/url"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// Link returns the address of the page where a person decides about a tool, below the
// gateway's own address; "" if base is.
func Link(base string, id tool.ID) string {
	if base == "" {
		return ""
	}
	return base + "/admin/tools/" + url.PathEscape(id.Server) + "/" + url.PathEscape(id.Name)
}
