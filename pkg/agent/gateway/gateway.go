// Package gateway answers what agents ask: which tools there are, which of
// them are locked and why, and the call of one.
//
// A [Session] is one request's view: what the agent's scope and the request's
// selection leave is all that exists for it, in every answer, count and
// message. A locked tool is shown as locked and never called; text that was never
// approved is never quoted. Definitions, arguments and results pass byte for byte.
package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// An Upstream calls tools; *upstream.Client is one.
type Upstream interface {
	// Call returns the result object as the server sent it, an [*outcome.RPCError]
	// if the server answered with an error of its own, or an [*outcome.CallError].
	Call(ctx context.Context, t upstream.Target, c upstream.Call) (json.RawMessage, error)
}

// Approvals reads what decides about a call, as of every write before.
type Approvals interface {
	document.Reader

	// GetWith is that of [approval.Store].
	GetWith(ctx context.Context, id tool.ID, keys ...document.Key) (approval.Record, []document.Doc, error)
}

// Options are the knobs of a [Gateway]. The zero value works.
type Options struct {
	BaseURL  string           // of the page where people decide, without a trailing slash; "": no links
	CallTime time.Duration    // the longest that a call of a server may take; 0: 20 s
	Holds    bool             // a call can wait for its client to come back: the process goes on between requests
	Sealer   *seal.Sealer     // of what clients keep for the gateway; nil: nothing can be asked of stateless clients
	Requests request.Asks     // of agents; nil: they can ask for nothing
	Asks     bool             // agents may ask for what is locked where the config does not say
	Audit    audit.Readier    // is asked before a call where the config says that its line is required; nil: nothing is
	Log      *slog.Logger     // nil: none
	Now      func() time.Time // nil: time.Now

	// OnRequest is told of each request that an agent opens, and of the id of the agent; nil: nobody is.
	OnRequest func(ctx context.Context, agent string, r request.Request)

	// Scope returns the scope of the issuer's that gives a tier, as clients ask for it; "": none
	// does. Nil: it has the tier's name.
	Scope func(tool.Tier) string
}

// How long the read of an approval record may take, and a request more than its call. Where an answer
// cannot be streamed API Gateway gives up after 30 s and the function after 28; a call, after
// at most 20.
const (
	usualCall    = 20 * time.Second
	approvalTime = 5 * time.Second
)

// A Gateway opens sessions. It is safe for concurrent use.
type Gateway struct {
	states    *state.Loader
	approvals Approvals
	up        Upstream
	lot       *pendingCalls
	running   running
	grants    grants
	codes     codes
	o         Options
}

// New returns a Gateway. It makes no call.
func New(states *state.Loader, approvals Approvals, up Upstream, o *Options) *Gateway {
	g := &Gateway{states: states, approvals: approvals, up: up, lot: newPendingCalls()}
	if o != nil {
		g.o = *o
	}
	g.o.Log = cmp.Or(g.o.Log, slog.New(slog.DiscardHandler))
	if g.o.OnRequest == nil {
		g.o.OnRequest = func(context.Context, string, request.Request) {}
	}
	if g.o.CallTime <= 0 {
		g.o.CallTime = usualCall
	}
	if g.o.Scope == nil {
		g.o.Scope = tool.Tier.String
	}
	if g.o.Now == nil {
		g.o.Now = time.Now
	}
	return g
}
