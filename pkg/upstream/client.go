// Package upstream is the gateway's MCP client: it loads the tools of upstream
// servers and calls them.
//
// It moves raw JSON. Typed clients round integers beyond 2^53, drop fields
// they do not know and fail on new kinds of content; a gateway must pass all of that on.
//
// Every way in which a server can fail ends in one [outcome.Outcome]. Type, status
// code and headers decide it, never text that somebody else wrote: see [classify].
package upstream

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/egress"
)

// A Target is one server to load or to call.
type Target struct {
	ID          string            // its name in the config
	URL         string            // of its MCP endpoint
	Headers     map[string]string // values may hold ${env:…}, ${ssm:…}, ${secretsmanager:…}
	Timeout     time.Duration     // of one call, all its attempts; 0: 20 s, and never over [Options].CallTime
	Command     *Command          // how it is started, if it is a program; URL is what identifies it then
	BehindProxy string            // "envoy": its x-envoy-* headers are evidence; else ""
	Memory      outcome.Memory    // of another process: [outcome.Outcome.Memory]
	Shared      bool              // all callers share one session, whoever they are
	Handshake   bool              // it is spoken to in a protocol of the handshake protocol, whatever it knows
	Asks        Asks              // what it may ask callers; "": [AsksRelay]
	Lists       string            // of a load: [outcome.Outcome.Lists] of lists whose definitions the caller has
	Once        bool              // a load makes one attempt: the last one failed, and others wait
}

// Asks says what a server may ask the caller of a tool.
type Asks string

// What there is.
const (
	AsksRelay  Asks = "relay"  // what can be passed on to the caller
	AsksReplay Asks = "replay" // also for input, where its call cannot wait for the answer and is made again with it
	AsksOff    Asks = "off"    // nothing
)

// Options are the knobs of a [Client]. The zero value is ready to use.
type Options struct {
	Secrets     secret.Source  // nil: secret.Env{}
	Sessions    *session.Store // where other instances find the callers' sessions; nil: there are none
	AllowNets   []netip.Prefix // networks that may be dialed although they are not public, also by http
	Log         *slog.Logger   // nil: slog.DiscardHandler
	CallTime    time.Duration  // the longest that one call may take; 0: 20 s
	Holds       bool           // a call can wait for an answer of its caller: the process does not end with a request
	Concurrency int            // servers loaded at once; under 1: 64
	Name        string         // of this client, towards servers; "": portcullis
	Version     string         // of this client, towards servers; "": 0.0.0
	RuntimeAPI  string         // host:port of the Lambda runtime, never dialed; "": $AWS_LAMBDA_RUNTIME_API
	Commands    bool           // servers that are programs are started: whoever writes the config runs programs here
	RootCAs     *x509.CertPool // that servers' certificates must come from; nil: the system's

	// ProgramsOfAgent returns how many of these programs run for one agent at most, over all
	// servers; nil: 24. It is asked before each start.
	ProgramsOfAgent func() int

	// Observe, if set, is told how each load and each call ended. It must not block.
	Observe func(ctx context.Context, o outcome.Outcome)

	// Trace reports whether the server of an id is told which trace a call belongs to: the gateway's
	// own, or where there is none the caller's. nil: none is, since who knows an id can tell which
	// calls belong together, here and elsewhere.
	Trace func(server string) bool

	Now    func() time.Time                        // nil: time.Now
	Jitter func(limit time.Duration) time.Duration // nil: uniform in [0, limit)
}

// A Call is one request of an agent: tools/call, unless Method says otherwise.
type Call struct {
	Owner     session.Owner   // whose session with the server it is made on
	Client    mcp.Client      // whom the server may tell and ask something meanwhile
	Method    string          // prompts/get, resources/read, completion/complete; "": tools/call
	Name      string          // of the tool or prompt, as its server knows it, or the resource's URI; "" to complete
	Arguments json.RawMessage // they pass untouched; nil: none
	Rest      rawjson.Object  // the further members of the caller's params, such as requestState

	// Meta are the members of the caller's _meta. What concerns only the caller's
	// connection (protocol version, client info, progress, log level) is not passed on.
	Meta        rawjson.Object
	Traceparent string // of the caller's HTTP request, used if Meta has none

	Schema json.RawMessage // the tool's input schema, for its x-mcp-header properties; nil: none
	Once   bool            // it is not sent again after an answer that may come of a call that was begun
	Retry  bool            // the tool is read-only or idempotent: trying it twice does no harm
}

// A Client loads and calls upstream servers. It is safe for concurrent use and
// remembers of each server its protocol, how its last calls went and, where the server has
// sessions, one an owner.
type Client struct {
	o      Options
	limits limits
	dialer *egress.Dialer
	http   *http.Client
	cache  secretCache
	info   json.RawMessage // this client, as MCP's clientInfo
	agent  string          // this client, as User-Agent
	nextID atomic.Int64    // JSON-RPC ids are unique over all servers

	listMetas sync.Map // [rawjson.Object] by what of an mcpSession counts

	programs *programs // nil: none are started

	sessions sessionCache
	shared   sharedStore
	ends     chan struct{} // holds a token for each session that is to be ended
	ending   chan struct{} // and for each that is just being ended

	mu      sync.Mutex
	servers map[string]*serverState // by id and URL
	sweeper *time.Timer             // nil: there is no session
}

// usualCall is how long a call may take if nothing else is said.
const usualCall = 20 * time.Second

// Limits bound what one server may take.
type limits struct {
	attempts int           // of a load or a call
	attempt  time.Duration // the handshake, and each page, of a load
	load     time.Duration // all attempts of a load, until a first page has come
	list     time.Duration // a whole load
	discover time.Duration // for a program's answer to server/discover
	program  time.Duration // in the place of attempt, for a program: some are fetched before they run
	call     time.Duration // all attempts of a call
	margin   time.Duration // left to the caller before its own deadline
	start    time.Duration // jitter before a load of many
	burst    int           // loads of many that begin at once
	grace    time.Duration // for what does not stop at its deadline
	drain    time.Duration // for the end of an event stream after the reply
}

// New returns a Client. It makes no call.
func New(o *Options) *Client {
	c := &Client{
		limits: limits{
			attempts: 3, attempt: 5 * time.Second, load: 10 * time.Second, list: time.Minute, call: usualCall,
			discover: 8 * time.Second, program: 15 * time.Second,
			margin: 500 * time.Millisecond, start: 50 * time.Millisecond, burst: burst, grace: 500 * time.Millisecond,
			drain: 10 * time.Millisecond,
		},
		servers: map[string]*serverState{}, sessions: sessionCache{max: maxSessions},
		ends: make(chan struct{}, maxEnds), ending: make(chan struct{}, maxEnding),
	}
	if o != nil {
		c.o = *o
	}
	if c.o.Secrets == nil {
		c.o.Secrets = secret.Env{}
	}
	c.o.Log = cmp.Or(c.o.Log, slog.New(slog.DiscardHandler))
	if c.o.Now == nil {
		c.o.Now = time.Now
	}
	if c.o.Jitter == nil {
		c.o.Jitter = rand.N[time.Duration]
	}
	if c.o.CallTime > 0 {
		c.limits.call = c.o.CallTime
	}
	if c.o.Concurrency < 1 {
		c.o.Concurrency = 64
	}
	name, version := cmp.Or(c.o.Name, "portcullis"), cmp.Or(c.o.Version, "0.0.0")
	info := rawjson.Object{{Name: "name", Value: rawjson.Quote(name)}, {Name: "version", Value: rawjson.Quote(version)}}
	c.info, c.agent = info.Bytes(), name+"/"+version
	c.shared = sharedStore{store: c.o.Sessions, log: c.o.Log, now: c.o.Now}
	c.cache.from = c.o.Secrets
	if c.o.Commands {
		c.programs = newPrograms(c.o.Log, c.o.ProgramsOfAgent)
	}
	c.dialer = &egress.Dialer{
		Rule:  egress.Rule{Allow: c.o.AllowNets, Runtime: cmp.Or(c.o.RuntimeAPI, os.Getenv("AWS_LAMBDA_RUNTIME_API"))},
		Roots: c.o.RootCAs,
	}
	c.http = &http.Client{
		Transport: recorder{c.dialer.Transport()},
		// A redirect would carry the headers elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// Close closes idle connections and the streams that sessions hold open, and looks for idle sessions no more until one is opened.
// The client can go on being used.
func (c *Client) Close() {
	c.mu.Lock()
	if c.sweeper != nil {
		c.sweeper.Stop()
		c.sweeper = nil
	}
	c.mu.Unlock()
	c.sessions.each((*sessionEntry).closeListenStream)
	c.http.CloseIdleConnections()
}

// server returns what is remembered of a server. Under another URL it is another server.
func (c *Client) server(t Target) *serverState {
	key := t.ID + "\x00" + t.URL
	if t.Handshake {
		key += "\x00" // it may be known by another protocol
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.servers[key]
	if !ok {
		s = &serverState{memory: t.Memory}
		c.servers[key] = s
	}
	return s
}

// within returns a context that ends after limit, and before the caller's own
// deadline by a margin that leaves time to answer.
func (c *Client) within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	end := time.Now().Add(limit)
	if d, ok := ctx.Deadline(); ok && d.Add(-c.limits.margin).Before(end) {
		end = d.Add(-c.limits.margin)
	}
	return context.WithDeadline(ctx, end)
}

// ended completes the outcome of a load or a call, logs and counts it, and says it on the span in
// codes.
func (c *Client) ended(s observe.Span, name string, t Target, start time.Time, o outcome.Outcome) outcome.Outcome {
	o.ServerID, o.CheckedAt = t.ID, c.o.Now()
	o.Duration = o.CheckedAt.Sub(start)
	level := slog.LevelWarn
	if o.Status == outcome.Available || !o.Recorded() {
		level = slog.LevelDebug
	}
	c.o.Log.LogAttrs(s.Context, level, "upstream operation", slog.String("op", name),
		slog.String("server", o.ServerID), slog.String("status", string(o.Status)), slog.String("reason", o.Reason),
		slog.Int("http_status", o.HTTPStatus), slog.Int("attempts", o.Attempts), text.Ms("duration", o.Duration),
		slog.Int("tools", len(o.Tools)), slog.Int("items", len(o.Items)), slog.Int("unread", len(o.Unread)),
		slog.Int("refused", len(o.Refused)), slog.String("error", o.Error))
	if c.o.Observe != nil {
		c.o.Observe(s.Context, o)
	}
	s.Name("server", o.ServerID)
	s.Name("outcome", string(o.Status))
	s.Count("attempts", o.Attempts)
	if o.Status != outcome.Available && o.Recorded() {
		s.Fail(cmp.Or(o.Reason, string(o.Status)))
	}
	return o
}
