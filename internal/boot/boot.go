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
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
)

// Stores are the stores of a gateway.
type Stores struct {
	Objects   object.Store
	Approvals catalog.Approvals // also holds all documents
	Events    audit.Events      // nil: events of people that concern no item are not stored
	Tokens    *token.Store      // nil: no agent tokens
	Requests  *request.Store    // agents' requests for access; nil: agents cannot request access
	Outbox    *notify.Outbox    // notices to people; nil: none
	Sessions  *session.Store    // nil: sessions with upstream servers stay in this process
	Usage     usage.Store       // nil: calls are not counted here
	Copier    Copier            // copies the approvals; nil: they are not in a file on this machine
}

// NewStores returns the stores that every program has. Their documents are in a.
func NewStores(objects object.Store, a catalog.Approvals) Stores {
	return Stores{
		Objects: objects, Approvals: a,
		Tokens: token.NewStore(a), Requests: request.NewStore(a, nil), Outbox: notify.NewOutbox(a, nil),
	}
}

// A Copier copies the file of the approvals as of one moment. The reader closes the copy.
type Copier interface {
	Copy(ctx context.Context) (c io.ReadCloser, size int64, records int, err error)
}

// Options holds the settings in which the programs differ. The zero Options is valid.
type Options struct {
	// Function is a dimension of the metrics in the log: mcp, sync, admin, work, assemble; "": none
	Function  string
	Log       *slog.Logger                 // nil: none
	Secrets   secret.Source                // nil: the secrets in the environment
	RequestID func(context.Context) string // nil: none
	Progress  func(catalog.Progress)       // nil: none
	Rest      time.Duration                // see the field Rest of [catalog.SyncOptions]
	Syncs     bool                         // the program syncs soon after its start
	Now       func() time.Time             // nil: time.Now
	// start servers that are programs: the config is on the machine's own disk
	Commands bool
	Owner    *Owner          // nil: no folder key opens /admin
	Front    Timeouts        // zero: the timeouts of the functions
	Ending   <-chan struct{} // closed when the program is about to end; nil: never
	Sealer   *seal.Sealer    // nil: one with the key of the settings, if there is one
	Vault    connection.Keys // seals sign-ins at servers; nil: the gateway cannot sign in
	Table    string          // name of the table of sign-ins; their seal includes it
	// folder in which file:NAME of a setting is; "": the working directory
	Folder string
	Ahead  *state.Prefetch // objects that were read already; nil: none
	// Recorder gets the metrics of a program that is no function; nil: none
	Recorder observe.Recorder
	// Audit receives calls and events; nil: none. A function writes its calls to Log.
	Audit audit.Sink
	// limits requests and connections; nil: the platform does
	Gate *capacity.Gate

	// Wake starts the delivery of the outbox, in another process or on another goroutine. If it is
	// nil, the next sync delivers.
	Wake  func(ctx context.Context, id string) error
	Sends bool // this program delivers the outbox after each sync, unless Wake does it
}

// An Owner is the person who owns a gateway on one machine. If the gateway accepts every agent,
// only the key opens the admin API.
type Owner struct {
	Name string // in the audit
	Key  secret.Text
}

// A Program is a gateway with all its parts.
type Program struct {
	Settings Settings
	Stores   Stores
	States   *state.Loader
	Gateway  *gateway.Gateway
	Upstream *upstream.Client
	SignIns  *connection.Service // at servers; nil: the gateway cannot sign in
	Yielder  *Yielder            // lets requests run before a sync
	Gate     *capacity.Gate      // limits requests and connections; nil: the platform does
	Syncer   *catalog.Syncer
	Timeouts Timeouts
	Sealer   *seal.Sealer   // nil: no key
	Metrics  *observe.Meter // nil: no metrics
	Audit    *audit.Log     // of calls and events
	Feed     *audit.Feed    // of new audit lines; nil: calls run in other processes
	Calls    *audit.Dir     // the readable lines of calls; nil: not here
	Log      *slog.Logger
	Owner    *Owner          // nil: no folder key opens /admin
	Seen     *connect.Visits // known clients; nil: other processes serve them
	Counter  *usage.Counter  // counts calls; nil: no store for the counts
	// Usage is the source of usage counts for /admin; nil: unknown. It is Counter, unless the
	// program replaces it before it builds /admin.
	Usage usage.Source
	// AlarmReceivers counts the confirmed receivers of the stack's alarms, for /admin; nil: unknown
	AlarmReceivers func(context.Context) (int, error)

	Notifier notify.Notifier  // accepts notices to people
	Tracer   *observe.Tracer  // nil: no spans
	Sender   *notify.Sender   // nil: another process sends
	Tokens   *identity.Tokens // nil: no agent tokens, or [Program.Authenticator] was not called yet

	// sessions that clients ended; nil: clients cannot end sessions
	endedSessions *mcphttp.EndedSessions
	files         *auditevent.Files // records which config and policy come into use; nil: not recorded
	requestID     func(context.Context) string
	ending        <-chan struct{}
	now           func() time.Time
	secrets       secret.Source
	commands      bool                                // of the options
	folder        string                              // of the options
	wake          func(context.Context, string) error // of the options

	authOnce sync.Once
	auth     identity.Authenticator
	authErr  error

	tokenOnce sync.Once
	tokenErr  error

	providerOnce sync.Once
	provider     *identity.Provider
	providerErr  error
}

// New builds a Program bottom up. It makes no request.
func New(s Settings, stores Stores, o Options) *Program {
	p := &Program{Settings: s, Stores: stores, Log: o.Log, requestID: o.RequestID, now: o.Now, secrets: o.Secrets, folder: o.Folder, commands: o.Commands, Owner: o.Owner, Timeouts: o.Front, Sealer: o.Sealer, ending: o.Ending}
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
		p.endedSessions = mcphttp.NewEndedSessions(stores.Objects, p.Log)
	}
	if s.Access.Open() {
		p.Log.LogAttrs(context.Background(), slog.LevelWarn,
			"no authentication: everybody who reaches the address may call")
	}
	switch {
	case o.Function != "":
		p.Metrics = observe.NewMeter(s.Stack, o.Function, p.now)
		p.Metrics.WatchMemory()
	case o.Recorder != nil:
		p.Metrics = observe.NewRecordingMeter(o.Recorder)
	}
	p.Tracer = p.newTracer(o.Function)
	p.Upstream = upstream.New(&upstream.Options{
		Connections: p.connections(o), Secrets: p.secrets, Sessions: stores.Sessions, AllowNets: s.AllowNets, RuntimeAPI: s.RuntimeAPI, Version: Version, Log: p.Log, Observe: p.observe, Now: p.now,
		Concurrency: s.Concurrency, Commands: o.Commands, CallTime: p.Timeouts.Call, Holds: p.Timeouts.Holds, Trace: s.Traces.tells,
		ProgramsOfAgent: p.programsOfAgent,
	})
	p.Gate = o.Gate
	look := state.Options{
		Log: p.Log, Now: p.now, SyncEvery: s.SyncEvery, Memory: s.Memory, SyncMemory: s.SyncMemory,
		Prefetch: o.Ahead, AwaitsSync: o.Syncs,
		Full: p.Upstream.ProgramsFull,
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
	p.Gateway = gateway.New(p.States, stores.Approvals, p.Upstream, &gateway.Options{OnRequest: p.notifyRequest, BaseURL: s.AdminURL, Scope: s.Access.scope, CallTime: p.Timeouts.Call, Holds: p.Timeouts.Holds, Sealer: p.Sealer, Pages: stores.Approvals, Requests: asks, SignIns: p.SignIns != nil, Asks: p.Asks(), Audit: p.Audit, Log: p.Log, Now: p.now})
	p.Syncer = catalog.NewSyncer(stores.Objects, p.Stores.Approvals, p.Upstream, &catalog.SyncOptions{Log: p.Log, Progress: o.Progress, Now: p.now, Rest: o.Rest, Yield: p.Yielder.Yield})
	return p
}

// Asks reports whether agents may request access, unless the config says otherwise: somebody can
// decide about the requests.
func (p *Program) Asks() bool { return p.Settings.Access.HasApprovers() || p.Owner != nil }

// tierOf returns the tier of an item in the catalog, without regard to visibility.
func (p *Program) tierOf(ctx context.Context, id tool.ID) (tool.Tier, bool) {
	v := p.States.Load(ctx).View(identity.Agent{ID: "usage", Servers: []string{"*"}})
	i, ok := v.Find(id)
	if !ok {
		return tool.Destructive, false
	}
	return v.Tier(i), true
}

// auditLog returns the log that writes and counts the lines of calls and events.
func (p *Program) auditLog(kept audit.Sink) *audit.Log {
	var sinks []audit.Sink
	if kept != nil {
		sinks = append(sinks, kept)
	}
	if p.Counter != nil {
		sinks = append(sinks, p.Counter)
	}
	if p.Timeouts.Holds {
		p.Feed = &audit.Feed{}
		sinks = append(sinks, p.Feed)
	}
	return audit.NewLog(sinks...)
}

// AuditDays returns how many days the gateway keeps the files of the audit, or 0 if the config is
// not known yet.
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

// AuditLimit returns how many bytes the files of the audit may have. It is zero if the config is
// not known yet.
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
	p.endedSessions.Read(context.Background())
	o := mcphttp.Options{
		Version: Version, BaseURL: base, AllowOrigins: p.Settings.AllowOrigins, Timeout: p.Timeouts.Request,
		Resource: p.Settings.resource(), RequestID: p.requestID, Metrics: p.Metrics, Log: p.Log,
		Stream: p.Timeouts.Streams, Alone: p.Timeouts.Holds, Seal: p.Sealer,
		Ended: p.endedSessions, Ending: p.ending, Seen: p.recordClient(),
		Changed:  p.States.CatalogChanged,
		AuditLog: p.Metrics.Logs(), TrustedProxies: p.Settings.Access.TrustedProxies,
	}
	if !o.AuditLog {
		o.Audit = p.Audit
	}
	return mcphttp.New(backend{p.Gateway}, auth, &o)
}

// recordClient returns the function that records each client, or nil if this program does not serve
// clients.
func (p *Program) recordClient() func(mcphttp.ClientInfo, mcphttp.Session) {
	if p.Seen == nil {
		return nil
	}
	return func(c mcphttp.ClientInfo, s mcphttp.Session) {
		v := connect.Visit{Agent: c.Agent, Client: c.Name, Version: c.Version, Protocol: c.Protocol}
		p.Seen.Note(v, s.(*gateway.Session).Callable)
	}
}

// Sync runs one sync, counts it and makes its result visible to requests at once.
func (p *Program) Sync(ctx context.Context) (catalog.Report, error) {
	return p.sync(ctx, p.Syncer.Sync, p.notifySync)
}

// SyncDue is like Sync, for a sync that the schedule started; see [catalog.Syncer.SyncDue].
func (p *Program) SyncDue(ctx context.Context) (catalog.Report, error) {
	return p.sync(ctx, p.Syncer.SyncDue, p.notifySync)
}

// SyncServers is like Sync, for the named servers; see [catalog.Syncer.SyncServers].
func (p *Program) SyncServers(ctx context.Context, names []string) (catalog.Report, error) {
	run := func(ctx context.Context) (catalog.Report, error) {
		return p.Syncer.SyncServers(ctx, names)
	}
	return p.sync(ctx, run, p.notifySync)
}

// sync calls the function do, which runs the sync. It then calls the function tell with the result,
// counts the sync and logs the counts.
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
		size := s.Catalog.Size()
		run.Catalog = &observe.CatalogCounts{
			Age:        p.now().Sub(s.Catalog.Current().SyncedAt),
			Stale:      s.Health.Config.Stale || s.Health.Policy.Stale,
			Memory:     catalog.MemoryNeeded(size),
			SyncMemory: catalog.SyncMemoryNeeded(size),
		}
	}
	p.Count(ctx, p.Metrics.Sync(run))
	return r, err
}

// observe counts the outcome of a load or of a call.
func (p *Program) observe(ctx context.Context, o outcome.Outcome) {
	if o.Reason == outcome.ReasonDescriptors {
		p.Gate.Short()
	}
	if o.Recorded() { // otherwise the caller gave up, which says nothing about the server
		p.Count(ctx, p.Metrics.Upstream(ctx, o.ServerID, string(o.Status), o.Reason, o.Duration))
	}
}

// Count logs metrics that belong to no other line.
func (p *Program) Count(ctx context.Context, counted []slog.Attr) {
	if counted != nil {
		p.Log.LogAttrs(ctx, slog.LevelInfo, "metrics", counted...)
	}
}

// backend adapts the gateway to the transport.
type backend struct{ *gateway.Gateway }

func (b backend) Open(ctx context.Context, c gateway.Caller) (mcphttp.Session, error) {
	s, err := b.Gateway.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	return s, nil
}
