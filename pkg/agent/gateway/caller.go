package gateway

import (
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

// A Caller is the sender of one request, with the facts of its HTTP request.
type Caller struct {
	Agent       identity.Agent
	Path        string           // what follows /mcp: "", "/readonly", "/x/{toolset}"
	Header      http.Header      // only X-MCP-*, Mcp-Param-* and Prefer; canonical names
	Modern      bool             // stateless protocol: headers repeat parts of the body
	Traceparent string           // the W3C header, "" if there was none
	Session     string           // random id of the client's session; "": no session
	Apps        bool             // the client shows the pages of MCP Apps
	Event       *audit.CallEvent // to fill in for this request; nil: none
}
