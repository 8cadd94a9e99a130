// Package mcphttp serves MCP over HTTP to clients of the handshake protocol and the stateless
// protocol. It answers a POST with one JSON object, or with a stream of events if there are
// messages before the result.
//
// In the stateless protocol, every request describes itself. In the handshake protocol, the client
// sends initialize first and gets a session id. The sealed id contains the whole state of the
// session, so that each process with the key can read the state. A client's bytes reach the
// [Backend] unchanged, and the Backend's bytes reach the client unchanged. A gateway that decodes
// JSON would round large integers and drop unknown fields.
//
// If only one process serves the gateway ([Options].Alone), it has additional features. It can
// cancel a running call when the client requests that, keep the session's log level, and hold
// change streams open. It can also ask a client a question, and the client's next request has the
// answer.
package mcphttp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/base/hostname"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

// A Backend provides the tools. It is safe for concurrent use.
type Backend interface {
	// Open returns the session of one request of one caller. A *[mcp.Error] goes to the client. Any
	// other error goes to the log, and the client reads "internal error".
	Open(ctx context.Context, c gateway.Caller) (Session, error)

	// Stopped returns an error like Open's if the agent is stopped, and nil otherwise. The handler
	// calls it before every method except the handshake and ping.
	Stopped(ctx context.Context, agent identity.Agent) error

	// While returns a context that ends when ctx ends, when leave is called, or when the agent is
	// stopped.
	While(ctx context.Context, agent identity.Agent) (_ context.Context, leave func())
}

// A Session is one caller's view, for one request.
type Session interface {
	Items

	// AnswerTask answers a checked tasks/get, tasks/update or tasks/cancel with the result object.
	AnswerTask(ctx context.Context, r mcp.Request, c mcp.Client) (json.RawMessage, error)

	// Instructions describes the session's tools in a few words.
	Instructions() string

	// ListTools returns one page, as the result object of tools/list. Cursor is "" for the first
	// page.
	ListTools(ctx context.Context, cursor string) (json.RawMessage, error)

	// CallTool answers a checked tools/call with the result object. A *[mcp.Error] is a protocol
	// error. A failure that the model should read and act on is a result with isError. Before the
	// result, c may get messages and questions.
	CallTool(ctx context.Context, r mcp.Request, c mcp.Client) (json.RawMessage, error)

	// DeclaresOutput reports whether a tool's definition in ListTools has an output schema.
	DeclaresOutput(name string) bool

	// Lists returns the versions of this session's lists. last is what Lists returned for an
	// earlier session of the same caller, or zero. If nothing has changed, Lists may return last.
	Lists(last gateway.Lists) gateway.Lists
}

// Options configure a handler. The zero value of each field is usable.
type Options struct {
	Name    string // of the server, as clients show it; "": portcullis
	Version string // "": dev

	// BaseURL is the address that clients use, such as https://gw.example.com, without /mcp. The
	// gateway never uses the Host header for it, because the sender of a request chooses that
	// header. "": challenges have no resource_metadata. If it has a path, [Below] removes the path
	// from requests.
	BaseURL string

	// AllowOrigins are the web origins, such as https://app.example.com, whose pages may call; "*"
	// allows every origin. BaseURL's own origin is always allowed. A request without an Origin
	// header is not from a page and is served.
	AllowOrigins []string

	// The handler publishes Resource at /.well-known/oauth-protected-resource and names it in
	// challenges. nil: neither.
	Resource *Resource

	MaxBody     int64         // bytes of a request's body; 0: 4 MiB
	MaxResponse int           // bytes of an answer; 0: 5 MiB
	Timeout     time.Duration // of one request's work; 0: 25 s

	// Stream says that bytes reach the client before the answer is complete. A call can then send
	// messages before its result.
	Stream bool

	// Alone says that this is the gateway's only process, and that it keeps running between
	// requests. Then clients can cancel requests, get questions and hold streams open. Alone
	// requires Stream.
	Alone bool

	Seal   *seal.Sealer    // makes and opens session ids; nil: there are no sessions
	Ended  *EndedSessions  // nil: if Alone, this process remembers them
	Ending <-chan struct{} // closed before the program ends, which ends open streams; nil: never

	// Changed returns a channel that is closed when lists may have changed. An open stream then
	// checks its lists at once. nil: it checks them only every two seconds.
	Changed func() <-chan struct{}

	// The handler calls Seen after it has answered a client that sent its client info. The Session
	// is the caller's view. nil: no call.
	Seen func(ClientInfo, Session)

	// Audit gets one line for each authenticated request for a tool, a prompt, a resource or a
	// completion, allowed or not. nil: no audit. If Audit loses a line, it logs that.
	Audit audit.Sink

	// AuditLog adds the audit line to the log line of the call, as the member "audit". It is for
	// platforms that keep the log.
	AuditLog bool

	TrustedProxies int // between clients and this program; see [identity.Options]

	RequestID func(context.Context) string // the platform's id of a request, for log and metrics; nil: none
	Metrics   *observe.Meter               // nil: none
	Log       *slog.Logger                 // nil: discard
}

// Default limits. The timeout is longer than an upstream call's timeout and shorter than the Lambda
// function's. So the innermost timeout expires first, and its error is the most precise.
const (
	maxBody     = 4 << 20
	maxResponse = 5 << 20
	timeout     = 25 * time.Second
)

// New returns a handler for POST on /mcp, /mcp/readonly and /mcp/x/{toolset}, and for the protected
// resource metadata. Every other path is 404. New refuses an address or origin that no request
// could match.
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
	if o.Changed == nil {
		o.Changed = func() <-chan struct{} { return nil }
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
}

// behindProxy reports whether clients use a host name that is not loopback. If not, a loopback
// connection with such a Host header is a DNS rebinding attack.
func behindProxy(baseURL string) bool {
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" {
		return false
	}
	return !hostname.IsLoopback(u.Host)
}
