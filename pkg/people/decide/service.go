// Package decide is what people see of tools, prompts and resources and what they decide about them,
// for the pages and the API of /admin alike: lists with filters, one item with its record, and
// decisions that name what was seen.
//
// A decision names the hash of the definition that the person saw, so that nothing can be exchanged
// between looking and deciding. What an operator's rule denies cannot be enabled here.
package decide

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
)

// Options are the knobs of a Service. The zero value is usable.
type Options struct {
	// Agent is whose view of the tools people see: an operator's rule may deny a tool to
	// some agents only. The zero Agent stands for one named "admin" that sees every server.
	Agent identity.Agent

	// Events keeps what people do that is about no item; nil: it is kept nowhere.
	Events audit.Events

	Audit *audit.Log // has events as well as calls; nil: none

	// Stops keeps what people stop; nil: nothing can be stopped here.
	Stops *stop.Store

	// Requests keeps what agents ask for and what people decide about it; nil: nothing is asked for here.
	Requests *request.Store

	Notifier notify.Notifier // of what is asked for and decided; nil: nobody is told

	Sealer *seal.Sealer // of links to requests that nobody has made yet; nil: there are none

	// Running returns how many calls run in this process that a stop would cancel; nil: none run here.
	Running func(stop.Target) int

	// Calls reads agents' calls; nil: that is not done here. CallStore says where they are then, for
	// people; "": nowhere.
	Calls     audit.Reader
	CallStore string

	// Files are the files of the audit, and Tokens the agent tokens, for [Service.Restore]. The
	// zero value of each means that there are none here.
	Files  audit.Folder
	Tokens *token.Store

	// Issuer says that people sign in with an issuer here, which tells two of them apart.
	Issuer bool

	// Syncer is what [Service.Sync] runs; nil: syncs are not run here.
	Syncer Syncer

	// SearchExplainer answers what [Service.ExplainSearch] asks in the place of one of the Agents;
	// nil: nothing is tried here.
	SearchExplainer SearchExplainer
	Agents          identity.Names

	// Usage says how the tools are used; nil: it is not counted.
	Usage usage.Source

	// Copier copies the store of the approvals; nil: it is no file of this program.
	Copier Copier

	// HoldsAnswers says that what stands before the program holds an answer until it is whole, which
	// bounds its length.
	HoldsAnswers bool

	BaseURL string           // of the gateway, for links: "https://gate.example.com"
	Version string           // of the program, for its health
	Now     func() time.Time // nil: time.Now
	Log     *slog.Logger     // nil: none
}

// A Service shows tools, prompts and resources, and carries out decisions. It is safe for
// concurrent use.
type Service struct {
	states    *state.Loader
	approvals approval.Store
	o         Options

	tables struct {
		sync.Mutex
		last *itemIndex // of the newest catalog that was listed
	}
	rules struct {
		sync.Mutex
		last *rules
	}
	two struct {
		sync.Mutex
		since time.Time // when nobody was first seen to be one of two people; zero: there are some
	}
	changes review.Changes // that pages and lists have shown
}

// New returns a Service over the states of a gateway and its approvals.
func New(states *state.Loader, approvals approval.Store, o Options) *Service {
	if o.Agent.ID == "" {
		o.Agent = identity.Agent{ID: "admin", Servers: []string{"*"}, Tiers: []tool.Tier{tool.Read, tool.Write, tool.Destructive}}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Notifier == nil {
		o.Notifier = notify.Discard{}
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Service{states: states, approvals: approvals, o: o}
}

// Now returns the time by the desk's clock.
func (d *Service) Now() time.Time { return d.o.Now() }

// HoldsAnswers reports whether an answer is held until it is whole, which bounds its length.
func (d *Service) HoldsAnswers() bool { return d.o.HoldsAnswers }

// TakesRequests reports whether it is kept here what agents ask for.
func (d *Service) TakesRequests() bool { return d.o.Requests != nil }

// View returns the tools as they are known now.
func (d *Service) View(ctx context.Context) *state.View {
	return d.states.Load(ctx).View(d.o.Agent)
}

// An Actor is who sends a request. The zero Actor may do nothing.
type Actor struct {
	Name    string // whom the audit names
	Rights  identity.Rights
	Subject string // at the issuer with whom the person signed in; "": otherwise
	Source  string // address that the request came from; "": not known
	Agent   string // as which the request is stopped; "": as none
}

// actorKey is the context key of who sends a request.
type actorKey struct{}

// WithActor returns ctx with who sends the request.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// ActorOf returns who sends the request; the zero Actor if nobody was let in.
func ActorOf(ctx context.Context) Actor {
	a, _ := ctx.Value(actorKey{}).(Actor)
	return a
}
