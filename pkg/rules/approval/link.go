package approval

import (
	"net/url"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Link returns the address of the page on which a person decides about an item. base is the
// gateway's own address. If base is "", Link returns "". The address of a resource's page has the
// SHA-256 of the resource's URI, because a URI cannot be part of a path.
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
