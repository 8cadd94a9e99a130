// Package gateway answers agents' requests: it lists tools, explains locks and calls tools.
//
// A [Session] is the view of one request. Every answer, count and message of a Session covers only
// items in the agent's scope and the request's selection. The gateway lists a locked tool as locked
// and never calls it. It never quotes unapproved text. Definitions, arguments and results keep
// their bytes.
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
	// Call returns the result object with the server's bytes, an [*outcome.RPCError] if the server
	// answered with its own error, or an [*outcome.CallError].
	Call(ctx context.Context, t upstream.Target, c upstream.Call) (json.RawMessage, error)
}

// Approvals reads the facts that decide about a call. A read sees every earlier write.
type Approvals interface {
	document.Reader

	// GetWith has the contract of [approval.Store].
	GetWith(ctx context.Context, id tool.ID, keys ...document.Key) (approval.Record, []document.Doc, error)
}

// Options configure a [Gateway]. The zero value works.
type Options struct {
	BaseURL  string           // of the page where people decide, without a trailing slash; "": no links
	CallTime time.Duration    // time limit of a server's call; 0: 20 s
	Holds    bool             // a call can wait for its client: the process runs between requests
	Sealer   *seal.Sealer     // for state that clients keep; nil: no questions to stateless clients
	Pages    document.Store   // whose page each client opened last; nil: unknown
	Requests request.Asks     // access requests of agents; nil: agents cannot request access
	SignIns  bool             // the gateway can sign in to servers
	Asks     bool             // agents may request access if the config does not decide this
	Audit    audit.Readier    // checked before calls whose audit line the config requires; nil: never
	Log      *slog.Logger     // nil: none
	Now      func() time.Time // nil: time.Now

	// The gateway calls OnRequest for each access request that an agent opens, with the tier of its
	// item and the number of findings; "": the item is no longer listed. nil: no call.
	OnRequest func(ctx context.Context, agent string, r request.Request, tier string, findings int)

	// Scope returns the OAuth scope that grants a tier, or "" if none does. nil: the scope has the
	// tier's name.
	Scope func(tool.Tier) string
}

// Time limits: the read of an approval record, and the time of a request beyond its call. Without a
// stream, API Gateway times out after 30 s and the function after 28 s. A call times out after at
// most 20 s.
const (
	usualCall    = 20 * time.Second
	approvalTime = 5 * time.Second
)

// A Gateway opens sessions. It is safe for concurrent use.
type Gateway struct {
	states    *state.Loader
	approvals Approvals
	up        Upstream
	pending   *pendingCalls
	running   running
	grants    grants
	codes     codes
	o         Options
}

// New returns a Gateway. It makes no calls.
func New(states *state.Loader, approvals Approvals, up Upstream, o *Options) *Gateway {
	g := &Gateway{states: states, approvals: approvals, up: up, pending: newPendingCalls()}
	if o != nil {
		g.o = *o
	}
	g.o.Log = cmp.Or(g.o.Log, slog.New(slog.DiscardHandler))
	if g.o.OnRequest == nil {
		g.o.OnRequest = func(context.Context, string, request.Request, string, int) {}
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
