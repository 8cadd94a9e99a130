// Package decide lets people see tools, prompts and resources and decide about them, for the pages
// and the API of /admin: lists with filters, one item with its record, and decisions that name what
// the person saw.
//
// A decision names the hash of the definition that the person saw. So if a server replaces the
// definition before the person decides, the decision does not apply to the new definition. No
// decision overrides an operator's deny rule.
package decide

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
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
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
)

// Options configure a Service. The zero value is usable.
type Options struct {
	// Agent is the agent whose view of the tools people see, because a rule may deny a tool only to
	// some agents. If it is zero, people see the tools as an agent named "admin" that sees every
	// server.
	Agent identity.Agent

	// Events stores the audit events that are not about an item; nil: they are not stored.
	Events audit.Events

	Audit *audit.Log // has events and calls; nil: none

	// Stops stores what people stop; nil: nothing can be stopped here.
	Stops *stop.Store

	// Requests stores agents' requests and the decisions about them; nil: there are no requests.
	Requests *request.Store

	Notifier notify.Notifier // sends notices about requests and decisions; nil: nobody is notified
	Notices  NoticeSender    // delivers notices; nil: another process does
	Asks     bool            // agents may request access, unless the config says otherwise

	// ConfigFolder has mcp_config.json and its backups, if both are on this machine; nil: they are
	// not.
	ConfigFolder object.Store

	Sealer *seal.Sealer // seals links to requests that nobody has made yet; nil: no such links

	// Running returns how many running calls of this process a stop would cancel; nil: no calls run
	// here.
	Running func(stop.Target) int

	// Calls reads agents' calls; nil: this process cannot read them. CallStore then says, for
	// people, where the calls are; "": nowhere.
	Calls     audit.Reader
	CallStore string
	CallLinks []CallLink // to the lines of calls, outside of this program

	// Days has the files of the audit; nil: this process does not write them. Feed passes on new
	// lines; nil: nobody can follow them here.
	Days AuditDays
	Feed *audit.Feed

	// Seen has the clients that connected to this process; nil: other processes serve them.
	Seen *connect.Visits

	// Files are the files of the audit, and Tokens the agent tokens, for [Service.Restore]. A zero
	// value means that there are none.
	Files  audit.Folder
	Tokens *token.Store

	// Issuer says that people sign in with an issuer, which distinguishes them.
	Issuer bool

	// SignIns signs in to servers; nil: the gateway cannot sign in.
	SignIns *connection.Service

	// Caller calls tools for people; nil: calls run elsewhere.
	Caller ToolCaller

	// Config is the config in the gateway's folder; nil: nobody can change the config here.
	// Objects has the operator's files. Prober probes new servers; nil: they cannot be probed here.
	Config  ConfigFile
	Objects object.Store
	Prober  Prober

	// Servers has the processes of servers; nil: they run elsewhere.
	Servers ServerControl

	// Syncer runs the syncs of [Service.Sync]; nil: this process runs none.
	Syncer Syncer

	// SearchExplainer answers searches of [Service.ExplainSearch] as one of the Agents; nil:
	// searches cannot be tried here.
	SearchExplainer SearchExplainer
	Agents          identity.Names

	// Usage says how agents use the tools; nil: usage is not counted. Dashboard is the address of
	// the charts, if another program draws them; "": there is none.
	Usage     usage.Source
	Dashboard string

	// AlarmReceivers counts the confirmed receivers of the platform's alarms. It fails with
	// [object.ErrNotFound] if the topic of the alarms does not exist; nil: there is no topic.
	AlarmReceivers func(context.Context) (int, error)

	// Copier copies the store of the approvals; nil: the store is not a file of this program.
	Copier Copier

	// HoldsAnswers says that a proxy in front of the program buffers whole answers, which limits
	// their length.
	HoldsAnswers bool

	PublicURL string           // base URL of /mcp, for issuers; "": unknown
	BaseURL   string           // base URL of the gateway, for links: "https://gate.example.com"
	Version   string           // version of the program, for its health
	Now       func() time.Time // nil: time.Now
	Log       *slog.Logger     // nil: none
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
	fourEyes struct {
		sync.Mutex
		since time.Time // when the fault began that missingIssuer reports; zero: there is none
	}
	alarms struct {
		sync.Mutex
		reason state.Reason // of the last count; zero: alarms reach somebody
		until  time.Time    // when the next count is due
	}
	open     openRequests
	probing  sync.Mutex     // held while a probe runs
	checking sync.Mutex     // held while a check of the audit runs
	changes  review.Changes // cache of the changes that pages and lists have shown
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

// Now returns the current time by the service's clock.
func (d *Service) Now() time.Time { return d.o.Now() }

// HoldsAnswers reports whether a proxy buffers whole answers, which limits their length.
func (d *Service) HoldsAnswers() bool { return d.o.HoldsAnswers }

// TakesRequests reports whether requests of agents are stored.
func (d *Service) TakesRequests() bool { return d.o.Requests != nil }

// View returns the current view of the tools.
func (d *Service) View(ctx context.Context) *state.View {
	return d.states.Load(ctx).View(d.o.Agent)
}

// An Actor is the person or program that sends a request. The zero Actor may do nothing.
type Actor struct {
	Name    string // name in the audit
	Rights  identity.Rights
	Subject string // subject at the issuer with which the person signed in; "": signed in without an issuer
	Source  string // address that the request came from; "": unknown
	Agent   string // id of the agent whose stop also refuses this request; "": none
}

// actorKey is the context key of the actor.
type actorKey struct{}

// WithActor returns ctx with the actor of the request.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// ActorOf returns the actor of the request; the zero Actor if the request is not authenticated.
func ActorOf(ctx context.Context) Actor {
	a, _ := ctx.Value(actorKey{}).(Actor)
	return a
}
