package boot

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/people/auditevent"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// Stores are where everything is kept.
type Stores struct {
	Objects   object.Store
	Approvals catalog.Approvals // and all documents
	Events    audit.Events      // nil: what people do that is about no item is kept nowhere
	Tokens    *token.Store      // nil: there are no agent tokens
	Requests  *request.Store    // of agents; nil: they can ask for nothing
	Outbox    *notify.Outbox    // what people are to be told; nil: they are told nothing
	Sessions  *session.Store    // nil: sessions with upstream servers stay in this process
	Usage     usage.Store       // nil: calls are not counted here
	Copier    Copier            // of the approvals; nil: they are in no file of this machine
}

// NewStores returns stores of objects and of documents. Those that every program has are over a.
func NewStores(objects object.Store, a catalog.Approvals) Stores {
	return Stores{
		Objects: objects, Approvals: a,
		Tokens: token.NewStore(a), Requests: request.NewStore(a, nil), Outbox: notify.NewOutbox(a, nil),
	}
}

// A Copier copies the file of the approvals, as it is at one moment. Who has read the copy closes it.
type Copier interface {
	Copy(ctx context.Context) (c io.ReadCloser, size int64, records int, err error)
}

// Options are what differs between the programs. The zero value works.
type Options struct {
	Function  string                       // dimension of the metrics: mcp, sync, admin, work, assemble; "": no metrics
	Log       *slog.Logger                 // nil: none
	Secrets   secret.Source                // nil: those of the environment
	RequestID func(context.Context) string // nil: none
	Progress  func(catalog.Progress)       // nil: none
	Rest      time.Duration                // of [catalog.SyncOptions]
	Now       func() time.Time             // nil: time.Now
	Commands  bool                         // servers that are programs are started here: the config comes from the machine's own disk
	Owner     *Owner                       // nil: no key of a folder opens /admin
	Front     Timeouts                     // zero: that of the functions
	Ending    <-chan struct{}              // closed when the program is about to end; nil: never
	Sealer    *seal.Sealer                 // nil: one with the key of the settings, if there is one
	Folder    string                       // that file: of a setting is in; "": the working directory
	Ahead     *state.Prefetch              // what was read of the objects already; nil: nothing
	Audit     audit.Sink                   // of calls and events; nil: none. A function's calls are on the lines of Log
	Gate      *capacity.Gate               // what bounds requests and connections; nil: the platform does

	// Wake has what is in the outbox sent, in another process or on another goroutine; nil: with the next sync.
	Wake  func(ctx context.Context, id string) error
	Sends bool // what is in the outbox is sent here: after each sync, unless Wake does it
}

// An Owner is the person to whom a gateway on one machine belongs. Where every agent is
// let in, only the key opens the admin API.
type Owner struct {
	Name string // in the audit
	Key  secret.Text
}

// A Program is a gateway with everything under it.
type Program struct {
	Settings Settings
	Stores   Stores
	States   *state.Loader
	Gateway  *gateway.Gateway
	Upstream *upstream.Client
	Yielder  *Yielder       // lets requests go before a sync
	Gate     *capacity.Gate // bounds requests and connections; nil: the platform does
	Syncer   *catalog.Syncer
	Timeouts Timeouts
	Sealer   *seal.Sealer   // nil: there is no key
	Metrics  *observe.Meter // nil: none
	Audit    *audit.Log     // of calls and events
	Calls    *audit.Dir     // where the lines of calls are read; nil: not here
	Log      *slog.Logger
	Owner    *Owner           // nil: no key of a folder opens /admin
	Seen     *connect.Visits  // the clients that have come; nil: other processes answer them
	Counter  *usage.Counter   // counts calls; nil: there is no store for it
	Usage    usage.Source     // the counter, unless something else is put there before /admin is built; nil: not known
	Notifier notify.Notifier  // of what people want to know
	Tracer   *observe.Tracer  // nil: nobody wants spans
	Sender   *notify.Sender   // nil: another process sends that
	Tokens   *identity.Tokens // nil: agent tokens are not taken, or nobody has asked for the [Program.Authenticator] yet

	ended     *mcphttp.EndedSessions // sessions that clients ended; nil: clients cannot end any
	files     *auditevent.Files      // nil: nothing keeps which versions come into use
	requestID func(context.Context) string
	ending    <-chan struct{}
	now       func() time.Time
	secrets   secret.Source
	folder    string                              // of the options
	wake      func(context.Context, string) error // of the options

	authOnce sync.Once
	auth     identity.Authenticator
	authErr  error

	tokenOnce sync.Once
	tokenErr  error

	providerOnce sync.Once
	provider     *identity.Provider
	providerErr  error
}

// New builds a Program, bottom up. It makes no call.
func New(s Settings, stores Stores, o Options) *Program {
	p := &Program{Settings: s, Stores: stores, Log: o.Log, requestID: o.RequestID, now: o.Now, secrets: o.Secrets, folder: o.Folder, Owner: o.Owner, Timeouts: o.Front, Sealer: o.Sealer, ending: o.Ending}
	p.Yielder = new(Yielder)
	if p.Timeouts == (Timeouts{}) {
		p.Timeouts = s.Timeouts()
	}
	if p.secrets == nil {
		p.secrets = secret.Env{}
	}
	if p.Sealer == nil {
		p.Sealer = newSealer(s.SealKey, p.secrets)
	}
	if p.now == nil {
		p.now = time.Now
	}
	if p.Timeouts.Holds {
		p.Seen = connect.NewVisits(p.now)
	}
	p.Log = cmp.Or(p.Log, slog.New(slog.DiscardHandler))
	if p.Timeouts.Holds {
		p.ended = mcphttp.NewEndedSessions(stores.Objects, p.Log)
	}
	if s.Access.Open() {
		p.Log.LogAttrs(context.Background(), slog.LevelWarn, "no authentication: whoever reaches the address may call")
	}
	if o.Function != "" {
		p.Metrics = observe.NewMeter(s.Stack, o.Function, p.now)
		p.Metrics.WatchMemory()
	}
	p.Tracer = p.newTracer(o.Function)
	p.Upstream = upstream.New(&upstream.Options{
		Secrets: p.secrets, Sessions: stores.Sessions, AllowNets: s.AllowNets, RuntimeAPI: s.RuntimeAPI, Version: Version, Log: p.Log, Observe: p.observe, Now: p.now,
		Concurrency: s.Concurrency, Commands: o.Commands, CallTime: p.Timeouts.Call, Holds: p.Timeouts.Holds, Trace: s.Traces.tells,
		ProgramsOfAgent: p.programsOfAgent,
	})
	p.Gate = o.Gate
	look := state.Options{
		Log: p.Log, Now: p.now, SyncEvery: s.SyncEvery, Prefetch: o.Ahead, Full: p.Upstream.ProgramsFull,
	}
	if p.Calls, _ = o.Audit.(*audit.Dir); p.Calls != nil {
		look.Audit, look.AuditSize = p.Calls.Fault, p.Calls.Size
	}
	if p.Gate != nil {
		look.Capacity = p.Gate.Facts
	}
	p.States = state.New(stores.Objects, stores.Approvals, &look)
	if stores.Usage != nil {
		p.Counter = usage.NewCounter(stores.Usage, p.tierOf, &usage.Options{Now: p.now, Log: p.Log})
		p.Usage = p.Counter
	}
	p.Audit = p.auditLog(o.Audit)
	p.auditEvents()
	p.startNotifier(o)
	var asks request.Asks
	if stores.Requests != nil {
		asks = stores.Requests
	}
	p.Gateway = gateway.New(p.States, stores.Approvals, p.Upstream, &gateway.Options{OnRequest: p.notifyRequest, BaseURL: s.AdminURL, Scope: s.Access.scope, CallTime: p.Timeouts.Call, Holds: p.Timeouts.Holds, Sealer: p.Sealer, Requests: asks, Asks: s.Access.HasApprovers() || p.Owner != nil, Audit: p.Audit, Log: p.Log, Now: p.now})
	p.Syncer = catalog.NewSyncer(stores.Objects, p.Stores.Approvals, p.Upstream, &catalog.SyncOptions{Log: p.Log, Progress: o.Progress, Now: p.now, Rest: o.Rest, Yield: p.Yielder.Yield})
	return p
}

// tierOf returns the tier of an item that the catalog has, whoever may see it.
func (p *Program) tierOf(ctx context.Context, id tool.ID) (tool.Tier, bool) {
	v := p.States.Load(ctx).View(identity.Agent{ID: "usage", Servers: []string{"*"}})
	i, ok := v.Find(id)
	if !ok {
		return tool.Destructive, false
	}
	return v.Tier(i), true
}

// auditLog returns what keeps the lines of calls and events, and counts them.
func (p *Program) auditLog(kept audit.Sink) *audit.Log {
	var sinks []audit.Sink
	if kept != nil {
		sinks = append(sinks, kept)
	}
	if p.Counter != nil {
		sinks = append(sinks, p.Counter)
	}
	return audit.NewLog(sinks...)
}

// AuditDays returns how many days the files of the audit are kept; 0: the config is not known yet.
func (p *Program) AuditDays() int {
	if c := p.States.Current().Config; c != nil {
		return c.Audit.Days
	}
	return 0
}

// programsOfAgent returns how many programs may run for one agent. While no config is known, it
// returns the default.
func (p *Program) programsOfAgent() int {
	if c := p.States.Current().Config; c != nil {
		return c.Gateway.Programs.MaxPerAgent
	}
	return config.DefaultPrograms
}

// AuditLimit returns how many bytes the files of the audit may have; zero: the config is not known yet.
func (p *Program) AuditLimit() audit.Limit {
	if c := p.States.Current().Config; c != nil {
		return audit.Limit{Bytes: c.Audit.MaxBytes, Refuse: c.Audit.Required}
	}
	return audit.Limit{}
}

// mcpAt returns the handler of /mcp and of the well-known metadata at a public address.
func (p *Program) mcpAt(base string) (http.Handler, error) {
	auth, err := p.authenticatorAt(context.Background(), base)
	if err != nil {
		return nil, err
	}
	p.ended.Read(context.Background())
	o := mcphttp.Options{
		Version: Version, BaseURL: base, AllowOrigins: p.Settings.AllowOrigins, Timeout: p.Timeouts.Request,
		Resource: p.Settings.resource(), RequestID: p.requestID, Metrics: p.Metrics, Log: p.Log,
		Stream: p.Timeouts.Streams, Alone: p.Timeouts.Holds, Seal: p.Sealer, Ended: p.ended, Ending: p.ending, Seen: p.seen(),
		AuditLog: p.Metrics != nil, TrustedProxies: p.Settings.Access.TrustedProxies,
	}
	if !o.AuditLog {
		o.Audit = p.Audit
	}
	return mcphttp.New(backend{p.Gateway}, auth, &o)
}

// seen returns who is told of the clients that have come; nil: nobody is.
func (p *Program) seen() func(mcphttp.ClientInfo, mcphttp.Session) {
	if p.Seen == nil {
		return nil
	}
	return func(c mcphttp.ClientInfo, s mcphttp.Session) {
		v := connect.Visit{Agent: c.Agent, Client: c.Name, Version: c.Version, Protocol: c.Protocol}
		p.Seen.Note(v, s.(*gateway.Session).Callable)
	}
}

// Sync runs one sync, counts it and lets requests see it at once.
func (p *Program) Sync(ctx context.Context) (catalog.Report, error) {
	return p.sync(ctx, p.Syncer.Sync, p.notifySync)
}

// SyncDue is Sync for one that is due by the clock alone: see [catalog.Syncer.SyncDue].
func (p *Program) SyncDue(ctx context.Context) (catalog.Report, error) {
	return p.sync(ctx, p.Syncer.SyncDue, p.notifySync)
}

// sync runs a sync by do, and tell with what it found.
func (p *Program) sync(ctx context.Context, do func(context.Context) (catalog.Report, error), tell func(context.Context, []catalog.ServerReport)) (catalog.Report, error) {
	span := p.Tracer.Start(ctx, observe.Sync)
	if !p.Timeouts.Holds {
		defer p.Tracer.Flush(ctx)
	}
	defer span.End()
	r, err := do(span.Context)
	if span.Count("servers", len(r.Servers)); err != nil {
		span.Fail("sync failed")
	}
	p.States.SyncEnded(r.Failure(err), p.Syncer.Catalog())
	s := p.States.Refresh(ctx)
	p.Syncer.Share(s.Catalog)
	tell(ctx, r.Servers)
	if p.files != nil {
		p.files.See(ctx, s.Health)
	}
	p.sendRest(ctx)
	run := observe.SyncRun{Result: "ok", Servers: len(r.Servers), Tools: r.Tools, Took: r.Duration}
	if err != nil {
		run.Result = "failed"
	}
	if s.Catalog != nil {
		run.Catalog = &observe.CatalogCounts{Age: p.now().Sub(s.Catalog.Current().SyncedAt), Stale: s.Health.Config.Stale || s.Health.Policy.Stale}
	}
	p.Count(ctx, p.Metrics.Sync(run))
	return r, err
}

// observe counts how a load or a call of a server ended.
func (p *Program) observe(ctx context.Context, o outcome.Outcome) {
	if o.Reason == outcome.ReasonDescriptors {
		p.Gate.Short()
	}
	if o.Recorded() { // else the caller gave up, which says nothing of the server
		p.Count(ctx, p.Metrics.Upstream(ctx, o.ServerID, string(o.Status), o.Reason, o.Duration))
	}
}

// Count logs metrics that have no line to go with.
func (p *Program) Count(ctx context.Context, counted []slog.Attr) {
	if counted != nil {
		p.Log.LogAttrs(ctx, slog.LevelInfo, "metrics", counted...)
	}
}

// backend is the gateway as the transport wants it.
type backend struct{ *gateway.Gateway }

func (b backend) Open(ctx context.Context, c gateway.Caller) (mcphttp.Session, error) {
	s, err := b.Gateway.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	return s, nil
}
