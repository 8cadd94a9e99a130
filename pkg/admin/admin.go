// Package admin is where people decide: an HTTP API under /admin that shows
// every tool with its lock, approves, disables and enables it, and says who did
// what; and the small page that a remediation links to.
//
// An approval names the hash of the definition that the person saw, so nothing
// can be slipped in between looking and deciding. What an operator's rule
// denies cannot be opened here. A page in a browser could be made to send
// requests by another site: what changes something must come from the same
// origin, and the API takes JSON only.
package admin

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/identity"
	"github.com/portcullis-mcp/portcullis/pkg/state"
)

// A Syncer brings the catalog up to date; *catalog.Syncer is one.
type Syncer interface {
	Sync(ctx context.Context) (catalog.Report, error)
}

// Options are the knobs of the API. The zero value refuses every request.
type Options struct {
	// Actor says who sends a request; the audit names it. An error refuses the
	// request; if it is an [*identity.Error] its Kind chooses the status. nil refuses all.
	Actor func(*http.Request) (string, error)

	// Agent is whose view of the tools people see: an operator's rule may deny a tool
	// to some agents only. The zero Agent: one named "admin" that sees every server.
	Agent identity.Agent

	// Hosts are the names and addresses, without port, under which the API is reached; nil: any.
	// Without it another site's name can be pointed at a gateway on loopback, and then is the same origin.
	Hosts []string

	BaseURL string           // of the gateway, for links: "https://gate.example.com"
	Version string           // of the program, for /healthz
	Now     func() time.Time // nil: time.Now
	Log     *slog.Logger     // nil: none
}

// New returns the handler of /admin and all below it. sync may be nil: then
// POST /admin/sync says that it is not served here.
func New(states *state.Loader, approvals approval.Store, sync Syncer, o *Options) http.Handler {
	return http.NotFoundHandler()
}

// Health returns the handler of /healthz: 200 while requests can be served,
// else 503. Callers whom Options.Actor refuses get no names and no reasons.
func Health(states *state.Loader, o *Options) http.Handler {
	return http.NotFoundHandler()
}
