package approval

import (
	"net/url"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Link returns the address of the page where a person decides about an item, below base, the
// gateway's own address; "" if base is empty. The page of a resource is named by the SHA-256 of
// its URI.
func Link(base string, id tool.ID) string {
	if base == "" {
		return ""
	}
	name := id.Name
	if id.Kind == tool.Resource {
		name = id.Sum()
	}
	return base + "/admin/" + id.Kind.String() + "s/" + url.PathEscape(id.Server) + "/" + url.PathEscape(name)
}
