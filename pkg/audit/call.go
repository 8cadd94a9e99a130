package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// A Call gathers what there is to say of one call while it is answered. Whoever finds something out
// says so; the line is made when the request ends, and what is found out later is not on it. A nil
// *Call takes nothing, so that what also runs outside of requests need not ask. It is safe for
// concurrent use.
type Call struct {
	mu          sync.Mutex
	ended       bool
	line        Line
	asked, sent json.RawMessage
	wasSent     bool
}

type callKey struct{}

// Begin returns a context in which one call is gathered; [Of] finds it.
func Begin(ctx context.Context) context.Context {
	return context.WithValue(ctx, callKey{}, &Call{})
}

// Of returns the call that ctx belongs to; nil: none.
func Of(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}

// set changes the line unless it was made.
func (c *Call) set(change func(*Line)) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		change(&c.line)
	}
}

// About says what is called: an id, or the name of a tool of the gateway's own. The last one counts.
func (c *Call) About(id string) { c.set(func(l *Line) { l.Tool = id }) }

// Asked says which arguments came for what is called.
func (c *Call) Asked(arguments json.RawMessage) { c.set(func(*Line) { c.asked = arguments }) }

// Decide says what was decided. Status is that of a lock, rules are those of the operator that
// decided. The last decision counts: what was sent can still be held back.
func (c *Call) Decide(decision, status string, rules []string) {
	c.set(func(l *Line) { l.Decision, l.Status, l.Rules = decision, status, slices.Clone(rules) })
}

// Allow says that the call of this definition is allowed; "": what is called has none.
func (c *Call) Allow(definition tool.Hash) {
	c.set(func(l *Line) { l.Decision, l.Status, l.Rules, l.Definition = Allowed, "", nil, definition })
}

// Sent says that the call goes to its server, with these arguments; nil: without any.
func (c *Call) Sent(arguments json.RawMessage) {
	c.set(func(*Line) { c.sent, c.wasSent = arguments, true })
}

// Ended says how the server answered. The last answer counts.
func (c *Call) Ended(outcome string) { c.set(func(l *Line) { l.Outcome = outcome }) }

// Searched says what a search found.
func (c *Call) Searched(f Found) { c.set(func(l *Line) { l.Found = &f }) }

// Line ends the gathering and returns what is known by now, as a line of a call that ended at the
// time. With redacted it has the arguments, without their values.
func (c *Call) Line(now time.Time, redacted bool) Line {
	l := Line{V: Version, Time: now.UTC(), Kind: KindCall}
	if c == nil {
		return l
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	gathered := c.line
	gathered.V, gathered.Time, gathered.Kind = l.V, l.Time, l.Kind
	gathered.ArgsAsked = HashArguments(c.asked)
	if c.wasSent {
		gathered.ArgsSent = gathered.ArgsAsked
		if !bytes.Equal(c.sent, c.asked) {
			gathered.ArgsSent = HashArguments(c.sent)
		}
	}
	if redacted {
		gathered.Arguments = Redact(c.asked)
	}
	return gathered
}
