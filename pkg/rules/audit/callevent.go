package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A CallEvent collects the facts of one request of an agent. The goroutine that handles the request
// fills it. At the end of the request its five writers read it: the audit, the usage (which counts
// the audit lines), the metrics, the span and the log.
type CallEvent struct {
	Line
	Counts   observe.Counts
	Routine  bool // an allowed request without a line: a poll that found no change
	Redacted bool // the line has the arguments, without their values; see [Redact]

	clientArgs, sentArgs  json.RawMessage // nil: no arguments
	hasClientArgs, isSent bool
}

// SetArguments notes the arguments that the client sent; nil: none.
func (e *CallEvent) SetArguments(args json.RawMessage) { e.clientArgs, e.hasClientArgs = args, true }

// SetSentArguments notes that the call went to its server with these arguments; nil: none.
func (e *CallEvent) SetSentArguments(args json.RawMessage) { e.sentArgs, e.isSent = args, true }

// Decide notes a decision and the status of a lock. The last decision counts: the gateway can
// withhold the result of a call that was sent.
func (e *CallEvent) Decide(decision, status string) {
	e.Decision, e.Status, e.Rules = decision, status, nil
}

// Allow notes that the call of this definition is allowed; "": the call has no definition.
func (e *CallEvent) Allow(definition tool.Hash) {
	e.Decide(Allowed, "")
	e.Definition = definition
}

// Lock notes that these operator rules lock the item, unless the reason is a stop.
func (e *CallEvent) Lock(status string, rules []string) {
	if e.Decision != Stopped {
		e.Decision, e.Rules = Locked, slices.Clone(rules)
	}
	e.Status = status
}

// Refuse notes that the request was faulty, unless there is another decision.
func (e *CallEvent) Refuse() { e.Decision = cmp.Or(e.Decision, Refused) }

// End returns the line of a call that ended now.
func (e *CallEvent) End(now time.Time) Line {
	l := e.Line
	l.V, l.Time, l.Kind = Version, now.UTC(), KindCall
	if !e.hasClientArgs {
		return l
	}
	l.ArgsAsked = HashArguments(e.clientArgs)
	switch {
	case !e.isSent:
	case bytes.Equal(e.sentArgs, e.clientArgs):
		l.ArgsSent = l.ArgsAsked
	default:
		l.ArgsSent = HashArguments(e.sentArgs)
	}
	if e.Redacted {
		l.Arguments = Redact(e.clientArgs)
	}
	return l
}

// HashArguments returns the SHA-256 of arguments, in lower-case hex. It hashes their canonical
// form, or the received bytes if they have none. No arguments count as an empty object.
func HashArguments(arguments json.RawMessage) string {
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	canonical, err := tool.Canonical(arguments)
	if err != nil {
		canonical = arguments
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}
