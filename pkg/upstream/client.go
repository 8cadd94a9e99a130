package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"time"
)

// A Target is one server to load or to call.
type Target struct {
	ID          string            // its name in the config
	URL         string            // of its MCP endpoint
	Headers     map[string]string // values may hold ${env:…}, ${ssm:…}, ${secretsmanager:…}
	Timeout     time.Duration     // of one call, all its attempts; 0 or over 20 s: 20 s
	BehindProxy string            // "envoy": its x-envoy-* headers are evidence; else ""
}

// Options are the knobs of a [Client]. The zero value is ready to use.
type Options struct {
	Secrets     Secrets        // nil: EnvSecrets{}
	AllowNets   []netip.Prefix // networks that may be dialed although they are not public, also by http
	Log         *slog.Logger   // nil: slog.DiscardHandler
	Concurrency int            // servers loaded at once; 0: 8
	Name        string         // of this client, towards servers; "": portcullis
	Version     string         // of this client, towards servers; "": 0.0.0
	RuntimeAPI  string         // host:port of the Lambda runtime, never dialed; "": none (AWS_LAMBDA_RUNTIME_API)

	// Observe, if set, is told how each load and each call ended. It must not block.
	Observe func(ctx context.Context, e Event)

	Now    func() time.Time                        // nil: time.Now
	Jitter func(limit time.Duration) time.Duration // nil: uniform in [0, limit)
}

// An Event is the end of one load or one call, for metrics. Status and Reason
// come from bounded sets; the server's name does not and must not be a dimension.
type Event struct {
	Op         string // "load" or "call"
	Server     string
	Status     Status // "" when the caller gave up
	Reason     string
	HTTPStatus int
	Attempts   int
	Duration   time.Duration
}

// Secrets looks up what a header refers to.
type Secrets interface {
	// Secret returns the value of ref, such as "env:NAME", "ssm:/name" or
	// "secretsmanager:name". It returns an error that wraps [ErrNoSecret] if
	// there is no such secret, which is a fault of the config; any other error
	// means that the secret cannot be had now.
	Secret(ctx context.Context, ref string) (string, error)
}

// A Call is one tools/call.
type Call struct {
	Name   string          // of the tool, as its server knows it
	Params json.RawMessage // the params object as the caller sent it; its name is replaced, its arguments pass untouched
	Meta   CallMeta        // the caller's metadata
	Schema json.RawMessage // the tool's input schema, for its x-mcp-header properties; nil: none
	Retry  bool            // the tool is read-only or idempotent: trying it twice does no harm
}

// CallMeta is the metadata of the caller's own request. What concerns only the
// caller's leg (protocol version, client info, progress, log level) is not passed on.
type CallMeta struct {
	Raw         json.RawMessage // the caller's _meta object; nil: that of Params
	Traceparent string          // of the caller's HTTP request, used if Raw has none
	Tracestate  string
}

// An RPCError is an upstream server's own JSON-RPC error, for the caller as it is.
type RPCError struct {
	Code    int64
	Message string
	Data    json.RawMessage // nil if absent
}

func (e *RPCError) Error() string { return fmt.Sprintf("upstream error %d: %s", e.Code, e.Message) }

// A CallError is a call that got no answer from the tool. Its text is for the
// log; the caller is told [Message].
type CallError struct {
	Outcome Outcome
}

func (e *CallError) Error() string {
	return fmt.Sprintf("call %q: %s: %s", e.Outcome.ServerID, e.Outcome.Reason, e.Outcome.Error)
}

// A Client loads and calls upstream servers. It is safe for concurrent use and
// remembers of each server its era, its session and how its last calls went.
type Client struct {
	o Options
}

// New returns a Client. It makes no call.
func New(o *Options) *Client {
	c := &Client{}
	if o != nil {
		c.o = *o
	}
	return c
}

// Close closes idle connections.
func (c *Client) Close() {}

// Load lists the tools of one server, with retries: at most 3 attempts of 5 s,
// 10 s in all, and never past the caller's deadline less 500 ms.
func (c *Client) Load(ctx context.Context, t Target) Outcome {
	return Outcome{ServerID: t.ID, Status: Permanent, Reason: "internal"}
}

// LoadAll loads every target, at most Options.Concurrency at once, and returns the
// outcomes in the order of the targets. each, if not nil, is called with every
// outcome as it comes, one at a time.
func (c *Client) LoadAll(ctx context.Context, targets []Target, each func(Outcome)) []Outcome {
	out := make([]Outcome, 0, len(targets))
	for _, t := range targets {
		o := c.Load(ctx, t)
		out = append(out, o)
		if each != nil {
			each(o)
		}
	}
	return out
}

// Call sends one tools/call and returns the result object, byte for byte. It
// returns an [*RPCError] if the server answered with one, and a [*CallError] otherwise.
func (c *Client) Call(ctx context.Context, t Target, call Call) (json.RawMessage, error) {
	return nil, &CallError{Outcome{ServerID: t.ID, Status: Permanent, Reason: "internal"}}
}

// Message returns the one line that an agent may read about o, "" if the
// server is available.
func Message(serverID string, o Outcome) string { return "" }

// ParseNets reads a comma-separated list of CIDRs, as in PORTCULLIS_ALLOW_NETS.
// It reports every fault at once; "" is an empty list.
func ParseNets(s string) ([]netip.Prefix, error) { return nil, nil }
