// Package upstream is the gateway's MCP client: it loads the tools of upstream servers and calls
// them.
//
// It passes raw JSON on. Typed clients round integers beyond 2^53, drop unknown fields and fail on
// new kinds of content. A gateway must pass all of these on.
//
// Every failure of a server ends in one [outcome.Outcome]. The types of Go errors, status codes and
// headers select the outcome. Text that another party wrote never does: see classify.
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
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
)

// A Target is one server to load or to call.
type Target struct {
	ID          string            // its name in the config
	URL         string            // of its MCP endpoint
	Headers     map[string]string // values may hold ${env:…}, ${ssm:…}, ${secretsmanager:…}
	Timeout     time.Duration     // of a call with all attempts; 0: 20 s, at most [Options].CallTime
	SignIn      *oauth.Settings   // how the gateway signs in; nil: it does not
	Connected   bool              // the gateway may have a sign-in; a load always checks
	Command     *Command          // the command, if the server is a program; URL then only identifies it
	BehindProxy string            // "envoy": its x-envoy-* headers are evidence; otherwise ""
	Memory      outcome.Memory    // of another process: see [outcome.Outcome.Memory]
	Shared      bool              // all callers share one session
	Handshake   bool              // use the handshake protocol only
	Asks        Asks              // what the server may ask callers; "": [AsksRelay]
	Lists       string            // [outcome.Outcome.Lists] of the lists that the caller has
	Once        bool              // a load makes one attempt: the last failed, and other servers wait
}

// Asks selects the questions that a server may ask the caller of a tool.
type Asks string

// The values of Asks.
const (
	AsksRelay  Asks = "relay"  // questions that the gateway can pass on to the caller
	AsksReplay Asks = "replay" // also questions for input that need a second call with the answer
	AsksOff    Asks = "off"    // no questions
)

// Connections supplies the access tokens of servers at which the gateway has signed in.
type Connections interface {
	// Token returns the token of a server; it is empty if the gateway has no sign-in there.
	Token(ctx context.Context, s oauth.Server) (secret.Text, error)
	// Renew returns the token that replaces one that the server rejected, or an empty text.
	Renew(ctx context.Context, s oauth.Server, rejected secret.Text) (secret.Text, error)
	// Secrets returns the texts of the last token's connection that no answer may show.
	Secrets(s oauth.Server) []string
	// Refused gets a call that the server refused until a person signs in, or signs in again.
	Refused(ctx context.Context, s oauth.Server, o outcome.Outcome)
}

// Options configure a [Client]. The zero value is ready to use.
type Options struct {
	Secrets     secret.Source  // nil: secret.Env{}
	Sessions    *session.Store // the store that all instances share; nil: one instance
	AllowNets   []netip.Prefix // non-public networks that may be dialed, even by plain http
	Log         *slog.Logger   // nil: slog.DiscardHandler
	CallTime    time.Duration  // the maximum time of one call; 0: 20 s
	Holds       bool           // a call can wait for its caller's answer in this process
	Concurrency int            // servers that load at once; under 1: 64
	Name        string         // this client's name for servers; "": portcullis
	Version     string         // this client's version for servers; "": 0.0.0
	RuntimeAPI  string         // host:port of the Lambda runtime, never dialed; "": $AWS_LAMBDA_RUNTIME_API
	Connections Connections    // supplies access tokens; nil: the gateway cannot sign in
	Commands    bool           // start servers that are programs: the config can run commands
	RootCAs     *x509.CertPool // the CAs of servers' certificates; nil: the system's

	// ProgramsOfAgent returns the maximum number of programs that run for one agent, over all
	// servers. Each start reads it. nil: 24.
	ProgramsOfAgent func() int

	// Observe, if set, gets the outcome of each load and each call. It must not block.
	Observe func(ctx context.Context, o outcome.Outcome)

	// Trace reports whether requests to a server include the trace of the call: the gateway's
	// trace, or the caller's if the gateway has none. A trace id links calls of different systems,
	// so the default is to send none. nil: none.
	Trace func(server string) bool

	Now    func() time.Time                        // nil: time.Now
	Jitter func(limit time.Duration) time.Duration // nil: uniform in [0, limit)
}

// A Call is one request of an agent: tools/call, unless Method says otherwise.
type Call struct {
	Owner     session.Owner   // the owner of the session that the call uses
	Client    mcp.Client      // gets the server's messages and questions during the call
	Method    string          // "": tools/call
	Name      string          // tool or prompt of the server, resource URI, task; "": completion
	Arguments json.RawMessage // they pass unchanged; nil: none
	Rest      rawjson.Object  // the other members of the caller's params, such as requestState

	// Meta are the members of the caller's _meta. The gateway does not pass on members about the
	// caller's connection: protocol version, client info, progress, log level.
	Meta        rawjson.Object
	Traceparent string // of the caller's HTTP request, used if Meta has none

	Schema json.RawMessage // the tool's input schema, for its x-mcp-header properties; nil: none
	Once   bool            // send the call once: no retry if the server may have begun it
	Retry  bool            // the tool is read-only or idempotent: a retry is safe
	Tasks  bool            // the result may be a task, if the caller declares the extension
}

// A Client loads and calls upstream servers. It is safe for concurrent use. It stores each server's
// protocol, the results of its last calls, and one session per owner if the server has sessions.
type Client struct {
	o      Options
	limits limits
	dialer *egress.Dialer
	http   *http.Client
	cache  secretCache
	info   json.RawMessage // this client, as MCP's clientInfo
	agent  string          // this client, as User-Agent
	nextID atomic.Int64    // JSON-RPC ids are unique over all servers

	listMetas sync.Map // [rawjson.Object] by the relevant fields of an mcpSession

	programs *programs                 // nil: the client starts none
	watcher  atomic.Pointer[ListWatch] // gets changes of lists; nil: none
	messages messages

	activities activities
	sessions   sessionCache
	shared     sharedStore
	ends       chan struct{} // a token for each session that waits for its end
	ending     chan struct{} // a token for each session that ends now

	mu      sync.Mutex
	servers map[string]*serverState // by id and URL
	sweeper *time.Timer             // nil: no session is open
}

// usualCall is the default time limit of a call.
const usualCall = 20 * time.Second

// Limits bound the time and the attempts of one server.
type limits struct {
	attempts int           // of a load or a call
	attempt  time.Duration // the handshake, and each page, of a load
	load     time.Duration // all attempts of a load, until the first page
	list     time.Duration // a whole load
	discover time.Duration // for a program's answer to server/discover
	program  time.Duration // instead of attempt, for a program: some install before they run
	call     time.Duration // all attempts of a call
	margin   time.Duration // left to the caller before its own deadline
	start    time.Duration // jitter before a load of many
	burst    int           // the number of loads that begin at once
	grace    time.Duration // for goroutines that do not stop at their deadline
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
	c.activities.began = c.o.Now().UTC()
	c.shared = sharedStore{store: c.o.Sessions, log: c.o.Log, now: c.o.Now}
	c.cache.from = c.o.Secrets
	if c.o.Commands {
		c.programs = newPrograms(c.o.Log, c.o.ProgramsOfAgent, c.noteListChange)
		c.programs.note = c.note
	}
	c.dialer = &egress.Dialer{
		Rule:  egress.Rule{Allow: c.o.AllowNets, Runtime: cmp.Or(c.o.RuntimeAPI, os.Getenv("AWS_LAMBDA_RUNTIME_API"))},
		Roots: c.o.RootCAs,
	}
	c.http = &http.Client{
		Transport: recorder{c.dialer.Transport()},
		// A redirect would send the headers to another address.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// Close closes idle connections and the streams of sessions. It stops the search for idle sessions
// until the next session opens. The client stays usable.
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

// server returns the state of a server. Another URL means another server.
func (c *Client) server(t Target) *serverState {
	key := t.ID + "\x00" + t.URL
	if t.Handshake {
		key += "\x00" // without Handshake, the server may use another protocol
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

// within returns a context that ends after limit, or a margin before the caller's deadline. The
// margin leaves time to answer.
func (c *Client) within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	end := time.Now().Add(limit)
	if d, ok := ctx.Deadline(); ok && d.Add(-c.limits.margin).Before(end) {
		end = d.Add(-c.limits.margin)
	}
	return context.WithDeadline(ctx, end)
}

// Names of the two operations in the log and in messages.
const (
	opLoad = "load"
	opCall = "call"
)

// ended completes the outcome of a load or a call, logs and counts it, and adds its codes to the
// span.
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
	if o.Recorded() {
		c.activities.count(name == opLoad, o)
	}
	if o.Status != outcome.Available && o.Recorded() {
		c.note(t.ID, Message{Kind: messageError, Text: name + ": " + cmp.Or(o.Error, o.Reason)})
	}
	s.Name("server", o.ServerID)
	s.Name("outcome", string(o.Status))
	s.Count("attempts", o.Attempts)
	if o.Status != outcome.Available && o.Recorded() {
		s.Fail(cmp.Or(o.Reason, string(o.Status)))
	}
	return o
}
