// Package upstream is the gateway's MCP client: it loads the tools of upstream
// servers and calls them.
//
// It moves raw JSON. Typed clients round integers beyond 2^53, drop fields
// they do not know and fail on new kinds of content; a gateway must pass all of that on.
//
// Every way in which a server can fail ends in one [Outcome]. Type, status
// code and headers decide it, never text that somebody else wrote: see [Classify].
package upstream

import (
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// A Status says how the last attempt to load a server's tools ended.
type Status string

// The four outcomes.
const (
	Available Status = "available"
	Transient Status = "transient" // starting up or briefly gone: it will be retried
	Permanent Status = "permanent" // broken until somebody mends it
	Denied    Status = "denied"    // we may not: retrying will not help
)

// An Outcome is how a load or a call of one server ended. It is stored in the catalog without Tools.
type Outcome struct {
	ServerID   string            `json:"server"`
	Status     Status            `json:"status"`
	Tools      []tool.Definition `json:"-"`
	Refused    []Refusal         `json:"refused,omitempty"` // tools of an available server that were not taken
	Error      string            `json:"error,omitempty"`   // for the log and the admin API: redacted, never for an agent
	Attempts   int               `json:"attempts"`
	Reason     string            `json:"reason,omitempty"` // stable code: timeout, refused, auth_required, …
	HTTPStatus int               `json:"http_status,omitempty"`
	RetryAfter time.Duration     `json:"retry_after,omitempty"`
	Duration   time.Duration     `json:"duration"`
	CheckedAt  time.Time         `json:"checked_at"`
}

// A Refusal is a listed tool that the gateway does not take, and why.
type Refusal struct {
	Name   string `json:"name"` // quoted and cut to 128 bytes
	Reason string `json:"reason"`
}
