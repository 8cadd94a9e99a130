// Package mcphttp serves MCP over HTTP: a POST is answered with one JSON object or, if there is something
// to say before the result, with a stream of events.
//
// Clients of two protocols speak to it. The stateless protocol describes itself in
// every request. The handshake protocols open with initialize, and get a session id that is
// all there is of the session: it says under seal what the gateway would have to remember, so that
// each process which has the key can read it. What a client sent reaches the [Backend] as the
// bytes that it sent, and what the Backend answers reaches the client as the
// bytes that it gave: a gateway that decodes rounds large integers and drops
// fields that it does not know.
//
// A process that answers every request ([Options].Alone) can do more than one of many: cancel a call that
// another request names, ask a client and take the answer from its next request, keep a log level, and
// hold streams open that tell of changes.
package mcphttp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

// A Backend knows the tools. It is safe for concurrent use.
type Backend interface {
	// Open answers for one request of one caller. A *[mcp.Error] is
	// rendered for the client; any other error is for the log, and the client
	// reads "internal error".
	Open(ctx context.Context, c gateway.Caller) (Session, error)

	// Stopped refuses an agent that is stopped, with an error as that of Open; nil: it is not. It is
	// asked before all that an agent can do but to say hello and to ask whether somebody is there.
	Stopped(ctx context.Context, agent identity.Agent) error

	// While returns a context that ends with ctx, when leave is called, or when the agent is stopped.
	While(ctx context.Context, agent identity.Agent) (_ context.Context, leave func())
}

// A Session is one caller's view, for one request.
type Session interface {
	Items

	// Instructions says in few words what can be found here.
	Instructions() string

	// ListTools returns one page, as the result object of tools/list.
	// Cursor is "" for the first page.
	ListTools(ctx context.Context, cursor string) (json.RawMessage, error)

	// CallTool takes a checked tools/call and returns the result object. A *[mcp.Error] is a protocol error;
	// what the model should read and act on is a result with isError. What c is told and asked comes
	// before that.
	CallTool(ctx context.Context, r mcp.Request, c mcp.Client) (json.RawMessage, error)

	// DeclaresOutput reports whether the definition that ListTools gives of the tool of
	// this name has an output schema.
	DeclaresOutput(name string) bool

	// Lists returns what tells the lists of this session from those of another one of the same caller;
	// last is what an earlier one returned, or zero.
	Lists(last gateway.Lists) gateway.Lists
}

// Options are the knobs of a handler. The zero value of each field is usable.
type Options struct {
	Name    string // of the server, as clients show it; "": portcullis
	Version string // "": dev

	// BaseURL is the address that clients use, such as https://gw.example.com,
	// without a path. It is never taken from the Host header, which the sender
	// of a request chooses. "": challenges name no metadata.
	BaseURL string

	// AllowOrigins are the web origins, such as https://app.example.com, whose
	// pages may call; "*" allows each. BaseURL's own origin is always allowed.
	// A request without an Origin header is not from a page and is served.
	AllowOrigins []string

	// Resource is published at /.well-known/oauth-protected-resource and named
	// in challenges. nil: neither.
	Resource *Resource

	MaxBody     int64         // bytes of a request's body; 0: 4 MiB
	MaxResponse int           // bytes of an answer; 0: 5 MiB
	Timeout     time.Duration // of one request's work; 0: 25 s

	// Stream says that what is written reaches the client before the answer is whole. Then a call can
	// tell its client something before its result.
	Stream bool

	// Alone says that this process answers every request that there is, and lives on between them. Then
	// requests can be cancelled, clients can be asked, and streams are held open. It goes with Stream.
	Alone bool

	Seal   *seal.Sealer    // makes and opens session ids; nil: there are no sessions
	Ended  *EndedSessions  // which sessions have ended; nil: where Alone, this process alone remembers
	Ending <-chan struct{} // closed when the program is about to end, and with it the streams that are held open; nil: never

	// Seen is told of each client that says what it is and was answered, with the caller's view; nil:
	// nobody is.
	Seen func(ClientInfo, Session)

	// Audit is written one line for each call: each authenticated request for a tool, a prompt, a
	// resource or a completion, allowed or not. nil: none. It says itself in the log what it could not keep.
	Audit audit.Sink

	// AuditLog has what the audit says of a call on the call's line of Log, with the member "audit", where
	// the platform keeps the log.
	AuditLog bool

	TrustedProxies int // between clients and this program; see [identity.Options]

	RequestID func(context.Context) string // the platform's id of a request, for log and metrics; nil: none
	Metrics   *observe.Meter               // nil: none
	Log       *slog.Logger                 // nil: discard
}

// Limits that hold unless Options say otherwise. The timeout lies between that of
// an upstream call and that of the function around it, so that the innermost
// gives the most precise answer.
const (
	maxBody     = 4 << 20
	maxResponse = 5 << 20
	timeout     = 25 * time.Second
)

// New returns a handler for POST on /mcp, /mcp/readonly and /mcp/x/{toolset}, and for the
// protected resource metadata. Every other path is 404. It refuses an
// address or origin that it could not match.
func New(b Backend, auth identity.Authenticator, o *Options) (http.Handler, error) {
	h := &handler{backend: b, auth: auth, bodies: budget{left: bodies}}
	if o != nil {
		h.opts = *o
	}
	h.fill()
	if h.opts.Alone {
		if h.opts.Ended == nil {
			h.opts.Ended = new(EndedSessions)
		}
		h.live = &liveSessions{ended: h.opts.Ended}
	}
	if b == nil || auth == nil {
		return nil, errors.New("mcphttp: no backend or no authenticator")
	}
	origins, err := newOrigins(h.opts.AllowOrigins, h.opts.BaseURL)
	if err != nil {
		return nil, err
	}
	h.origins = origins
	h.proxied = behindProxy(h.opts.BaseURL)
	h.serverInfo, err = rawjson.Encode(struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}{h.opts.Name, h.opts.Version})
	return h, err
}

func (h *handler) fill() {
	o := &h.opts
	o.Name = cmp.Or(o.Name, "portcullis")
	o.Version = cmp.Or(o.Version, "dev")
	if o.MaxBody <= 0 {
		o.MaxBody = maxBody
	}
	if o.MaxResponse <= 0 {
		o.MaxResponse = maxResponse
	}
	if o.Timeout <= 0 {
		o.Timeout = timeout
	}
	if o.RequestID == nil {
		o.RequestID = func(context.Context) string { return "" }
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
}

// behindProxy reports whether clients reach this process by a name that is not
// the loopback's. Only then may a request that arrives on loopback carry such a
// Host; otherwise it is a page that rebound its name to this machine.
func behindProxy(baseURL string) bool {
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" {
		return false
	}
	return !isLoopback(u.Host)
}

// isLoopback reports whether an address, with or without a port, is this machine's own.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = strings.Trim(addr, "[]")
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// ParseBaseURL reads a public address of a gateway, to which a path can simply be added.
func ParseBaseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("base URL: %w", err)
	}
	if u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("base URL %q is not scheme://host", s)
	}
	return u, nil
}
