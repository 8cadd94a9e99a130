package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Call gathers what there is to say of one call while it is answered. Whoever finds something out
// says so; the line is made when the request ends, and what is found out later is not on it. A nil
// *Call takes nothing, so that what also runs outside of requests need not ask. It is safe for
// concurrent use.
type Call struct {
	mu          sync.Mutex
	ended       bool
	line        Line
	asked, sent json.RawMessage // nil: there are none
	takes       bool            // it takes arguments
	wasSent     bool
	redacted    bool // arguments are kept, without their values
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

// Define says which definition is called, whatever is decided about the call; "": what is called has none.
func (c *Call) Define(hash tool.Hash) { c.set(func(l *Line) { l.Definition = hash }) }

// Asked says which arguments came for what is called; nil: none did.
func (c *Call) Asked(arguments json.RawMessage) {
	c.set(func(*Line) { c.asked, c.takes = arguments, true })
}

// KeepRedacted has the arguments kept without their values; see [Redact].
func (c *Call) KeepRedacted() { c.set(func(*Line) { c.redacted = true }) }

// Decide says what was decided. Status is that of a lock, rules are those of the operator that
// decided. The last decision counts: what was sent can still be held back.
func (c *Call) Decide(decision, status string, rules []string) {
	c.set(func(l *Line) { l.Decision, l.Status, l.Rules = decision, status, slices.Clone(rules) })
}

// Lock says that what is called is locked, unless a stop is why.
func (c *Call) Lock(status string, rules []string) {
	c.set(func(l *Line) {
		if l.Decision != Stopped {
			l.Decision, l.Rules = Locked, slices.Clone(rules)
		}
		l.Status = status
	})
}

// Allow says that the call of this definition is allowed; "": what is called has none.
func (c *Call) Allow(definition tool.Hash) {
	c.set(func(l *Line) { l.Decision, l.Status, l.Rules, l.Definition = Allowed, "", nil, definition })
}

// Refuse says that the request was faulty, unless something else was decided.
func (c *Call) Refuse() {
	c.set(func(l *Line) {
		if l.Decision == "" {
			l.Decision = Refused
		}
	})
}

// Sent says that the call went to its server, with these arguments; nil: without any.
func (c *Call) Sent(arguments json.RawMessage) {
	c.set(func(*Line) { c.sent, c.wasSent = arguments, true })
}

// Requested says which request the call is about: one that it opened or met, or that let it pass.
func (c *Call) Requested(id string) { c.set(func(l *Line) { l.Request = id }) }

// Ended says how the server answered. The last answer counts.
func (c *Call) Ended(outcome string) { c.set(func(l *Line) { l.Outcome = outcome }) }

// Searched says what a search found.
func (c *Call) Searched(f Found) { c.set(func(l *Line) { l.Found = &f }) }

// Line ends the gathering and returns what is known by now, as the line of a call that ended now.
func (c *Call) Line(now time.Time) Line {
	l := Line{V: Version, Time: now.UTC(), Kind: KindCall}
	if c == nil {
		return l
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	gathered := c.line
	gathered.V, gathered.Time, gathered.Kind = l.V, l.Time, l.Kind
	if !c.takes {
		return gathered
	}
	gathered.ArgsAsked = HashArguments(c.asked)
	switch {
	case !c.wasSent:
	case bytes.Equal(c.sent, c.asked):
		gathered.ArgsSent = gathered.ArgsAsked
	default:
		gathered.ArgsSent = HashArguments(c.sent)
	}
	if c.redacted {
		gathered.Arguments = Redact(c.asked)
	}
	return gathered
}
