package gateway

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/identity"
)

// A Caller is one request's sender, and what it said of itself beside the
// method's own parameters.
type Caller struct {
	Agent       identity.Agent
	Path        string          // what follows /mcp: "", "/readonly", "/x/{toolset}"
	Header      http.Header     // only X-MCP-*, Mcp-Param-* and Prefer; canonical names
	Meta        json.RawMessage // params._meta as it was sent; nil if there was none
	Modern      bool            // it speaks the stateless protocol, whose headers repeat what the body says
	Traceparent string          // the W3C header, "" if there was none
}

// An Error is a refusal that the caller may read. Code, Message and Data make
// the JSON-RPC error; Err is for the log alone.
type Error struct {
	Code       int             // JSON-RPC error code
	Message    string          // for the caller
	Data       json.RawMessage // error.data; nil: none
	Status     int             // HTTP status; 0: 200
	RetryAfter time.Duration   // Retry-After header, rounded up to seconds; 0: none
	Err        error           // the cause, for the log; may be nil
}

// Error returns the message for the caller.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause, which is for the log.
func (e *Error) Unwrap() error { return e.Err }
