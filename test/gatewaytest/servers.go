package gatewaytest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// Input schemas and annotations of a [Tool].
const (
	ReadOnly = `"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}`
	Additive = `"inputSchema":{"type":"object"},"annotations":{"destructiveHint":false}`
)

// Tool returns a definition. more contains its other members; "" adds an empty input schema.
func Tool(name, description, more string) string {
	if more == "" {
		more = `"inputSchema":{"type":"object"}`
	}
	return fmt.Sprintf(`{"name":%s,"description":%s,%s}`, rawjson.Quote(name), rawjson.Quote(description), more)
}

// A Server describes the lists and the answers of an upstream server of a [Gateway].
type Server struct {
	Tools     []string                                 // definitions, or only names of tools
	Prompts   []string                                 // definitions
	Resources []string                                 // definitions of resources and templates
	Outcome   outcome.Outcome                          // result of loads; no Status: available
	Answer    func(call Sent) (json.RawMessage, error) // nil: a text that names the tool
	URL       string                                   // in the config; "": made from the name
}

// A Sent is a call that reached a server.
type Sent struct {
	Server, URL, Tool, Params, Meta string // Tool is the URI if a resource was read
	Retry                           bool
	Method                          string // "": tools/call
}

// Servers is an [Upstream] of servers that a test describes. Other servers list nothing. The zero
// Servers is ready to use.
type Servers struct {
	ByName map[string]*Server
	Slow   func(ctx context.Context, server string) // if not nil, runs before each answer to a load
	After  func(ctx context.Context)                // if not nil, runs at the end of a load
	Kept   []upstream.Target                        // the targets of the last Keep
	Loaded []upstream.Target                        // the targets of the last load

	clock *Clock
	mu    sync.Mutex
	sent  []Sent
}

// Server returns the description of a server. The caller may change it.
func (s *Servers) Server(name string) *Server {
	if s.ByName == nil {
		s.ByName = map[string]*Server{}
	}
	if s.ByName[name] == nil {
		s.ByName[name] = &Server{}
	}
	return s.ByName[name]
}

// Prompt returns the definition of a prompt that takes one argument.
func Prompt(name, description string) string {
	return fmt.Sprintf(`{"name":%q,"description":%q,"arguments":[{"name":"about"}]}`, name, description)
}

// Resource returns the definition of a resource, or of a template if the URI has a brace.
func Resource(uri, description string) string {
	member := "uri"
	if strings.Contains(uri, "{") {
		member = "uriTemplate"
	}
	return fmt.Sprintf(`{%q:%q,"name":"a resource","description":%q}`, member, uri, description)
}

// Serve replaces the tools that a server lists.
func (s *Servers) Serve(name string, definitions ...string) *Server {
	s.Server(name).Tools = definitions
	return s.Server(name)
}

// Sent returns the calls that reached servers since its last call.
func (s *Servers) Sent() []Sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.sent
	s.sent = nil
	return out
}

// LoadEach implements [catalog.Loader].
func (s *Servers) LoadEach(ctx context.Context, targets []upstream.Target, each func(outcome.Outcome)) {
	s.Loaded = nil
	for _, target := range targets {
		if s.Slow != nil {
			s.Slow(ctx, target.ID)
		}
		if ctx.Err() != nil {
			each(outcome.Outcome{ServerID: target.ID})
			continue
		}
		s.Loaded = append(s.Loaded, target)
		each(s.load(target))
	}
	if s.After != nil {
		s.After(ctx)
	}
}

// Keep implements [catalog.Loader].
func (s *Servers) Keep(targets []upstream.Target) { s.Kept = targets }

func (s *Servers) load(target upstream.Target) outcome.Outcome {
	name := target.ID
	server := s.ByName[name]
	if server == nil {
		server = &Server{}
	}
	o := server.Outcome
	o.ServerID, o.Attempts, o.Duration = name, 1, 15*time.Millisecond
	if o.CheckedAt.IsZero() && s.clock != nil {
		o.CheckedAt = s.clock.Wait(0)
	}
	if o.Status != "" && o.Status != outcome.Available {
		return o
	}
	o.Status, o.HTTPStatus = outcome.Available, 200
	list := func(kind tool.Kind, definitions []string) {
		for _, raw := range definitions {
			if !strings.HasPrefix(raw, "{") {
				raw = fmt.Sprintf(`{"name":%q}`, raw)
			}
			d, err := tool.ParseItem(kind, []byte(raw))
			if err == nil {
				if err = tool.CheckDepth(d.Raw); err != nil {
					o.Nested = append(o.Nested, d)
				}
			}
			if err != nil {
				o.Refused = append(o.Refused, outcome.Refusal{Name: text.Quote(raw, 100), Kind: kind, Reason: err.Error()})
				continue
			}
			if kind == tool.Tool {
				o.Tools = append(o.Tools, d)
			} else if o.Read(d) {
				o.Items = append(o.Items, d)
			}
		}
	}
	list(tool.Tool, server.Tools)
	list(tool.Prompt, server.Prompts)
	list(tool.Resource, server.Resources)
	if len(o.Unread) > 0 {
		return o
	}
	o.Lists = fmt.Sprintf("%q %q %q", server.Tools, server.Prompts, server.Resources)
	if o.Lists == target.Lists { // the caller already has these lists
		o.Same, o.Tools, o.Items = true, nil, nil
	}
	return o
}

// Call implements [gateway.Upstream].
func (s *Servers) Call(_ context.Context, t upstream.Target, c upstream.Call) (json.RawMessage, error) {
	params := append(rawjson.Object{{Name: "arguments", Value: c.Arguments}}, c.Rest...)
	if c.Arguments == nil {
		params = c.Rest
	}
	var meta json.RawMessage
	if c.Meta != nil {
		meta = c.Meta.Bytes()
	}
	call := Sent{t.ID, t.URL, c.Name, string(params.Bytes()), string(meta), c.Retry, c.Method}
	s.mu.Lock()
	s.sent = append(s.sent, call)
	server := s.ByName[t.ID]
	s.mu.Unlock()
	if server != nil && server.Answer != nil {
		return server.Answer(call)
	}
	switch c.Method {
	case mcp.MethodGetPrompt:
		return json.RawMessage(fmt.Sprintf(`{"messages":[{"role":"user","content":{"type":"text","text":"%s"}}]}`, c.Name)), nil
	case mcp.MethodReadResource:
		return json.RawMessage(fmt.Sprintf(`{"contents":[{"uri":%q,"text":"read"}]}`, c.Name)), nil
	case mcp.MethodComplete:
		return json.RawMessage(`{"completion":{"values":["one"]}}`), nil
	}
	return json.RawMessage(fmt.Sprintf(`{"content":[{"type":"text","text":"%s did it"}]}`, c.Name)), nil
}

// A Clock shows the time that a test sets. The zero Clock shows the real time.
type Clock struct {
	Real func() time.Time // the real time; nil: time.Now

	mu     sync.Mutex
	start  time.Time // zero: the real time
	passed time.Duration
	step   time.Duration
}

// Now moves the clock by one step and returns the time.
func (c *Clock) Now() time.Time { return c.Wait(c.step) }

// Wait moves the clock by d and returns the new time.
func (c *Clock) Wait(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passed += d
	switch {
	case !c.start.IsZero():
		return c.start.Add(c.passed)
	case c.Real != nil:
		return c.Real().Add(c.passed)
	}
	return time.Now().Add(c.passed)
}

// Set sets the time, and the step by which each later [Clock.Now] moves the clock. The zero time
// selects the real time.
func (c *Clock) Set(now time.Time, step time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start, c.passed, c.step = now, 0, step
}
