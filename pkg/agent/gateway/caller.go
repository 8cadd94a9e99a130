package gateway

import (
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

// A Caller is one request's sender, and what its HTTP request said of it.
type Caller struct {
	Agent       identity.Agent
	Path        string           // what follows /mcp: "", "/readonly", "/x/{toolset}"
	Header      http.Header      // only X-MCP-*, Mcp-Param-* and Prefer; canonical names
	Modern      bool             // it speaks the stateless protocol, whose headers repeat what the body says
	Traceparent string           // the W3C header, "" if there was none
	Session     string           // of the client with the gateway, as chance named it; "": it has none
	Event       *audit.CallEvent // of the request, to be filled; nil: nobody reads it
}
