// Package admin is where people decide: an HTTP API under /admin that shows every tool with its
// lock, approves, disables and enables it, and says who did what; and the small pages that a
// remediation links to.
//
// An approval names the hash of the definition that the person saw, so that nothing can be
// exchanged between looking and deciding. What an operator's rule denies cannot be enabled here. A
// browser could be made to send requests by another site: what changes something must come from the
// same origin, and the API takes JSON only. That is checked before the credentials.
package admin

import (
	"context"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/identity"
	"github.com/portcullis-mcp/portcullis/pkg/login"
	"github.com/portcullis-mcp/portcullis/pkg/state"
	"github.com/portcullis-mcp/portcullis/pkg/token"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
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

	// Challenge is what a caller whom Actor refuses is told.
	Challenge Challenge

	// Login keeps who is signed in with a browser; nil: nobody can sign in here.
	Login *login.Sessions

	// Agent is whose view of the tools people see: an operator's rule may deny a tool to
	// some agents only. The zero Agent stands for one named "admin" that sees every server.
	Agent identity.Agent

	// Tokens keeps the agent tokens, whose hashes TokenKey makes; nil: they are not served here.
	Tokens   token.Store
	TokenKey token.Key

	BaseURL string           // of the gateway, for links: "https://gate.example.com"
	Version string           // of the program, for /admin/health
	Now     func() time.Time // nil: time.Now
	Log     *slog.Logger     // nil: none
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Agent.ID == "" {
		out.Agent = identity.Agent{ID: "admin", Servers: []string{"*"}, Tiers: []tool.Tier{tool.Read, tool.Write, tool.Destructive}}
	}
	if out.Now == nil {
		out.Now = time.Now
	}
	if out.Log == nil {
		out.Log = slog.New(slog.DiscardHandler)
	}
	return out
}

// An api has what the handlers share.
type api struct {
	states    *state.Loader
	approvals approval.Store
	syncer    Syncer // nil: syncs are not served here
	o         Options
	page      *template.Template
}

// New returns the handler of /admin and all below it. If sync is nil, POST /admin/sync answers that
// syncs are not run here.
func New(states *state.Loader, approvals approval.Store, sync Syncer, o *Options) http.Handler {
	a := &api{states: states, approvals: approvals, syncer: sync, o: o.withDefaults(), page: parsePage()}
	rest := http.NewServeMux()
	a.register(rest)
	return a.guard(a.pages(requireJSON(rest)))
}
