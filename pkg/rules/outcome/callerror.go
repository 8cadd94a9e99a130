package outcome

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// MaxResult is the longest result of a call that the gateway accepts, in bytes.
const MaxResult = 4 << 20

// Notes after a failure: the tool asked its client for input, or the shutdown of the gateway
// interrupted the call.
const (
	AskedNote      = "Note: the tool asks for input, which this client cannot give."
	UnansweredNote = "Note: the tool asked for input, and nobody gave it in time."
	StoppedNote    = "Note: the gateway was told to stop, and did not wait any longer."
)

// LostNote returns a line for the first result of a session in a new process. The gateway ended the
// old process of the session to make room for another process.
func LostNote(serverID string) string {
	return "Note: the gateway ended the idle process of MCP server '" + serverID +
		"' to make room for another one. " +
		"This call ran in a new process: what the server kept in memory for this session is gone."
}

// An RPCError is an upstream server's own JSON-RPC error, unchanged for the caller except for
// secrets.
type RPCError struct {
	Code    int64
	Message string
	Data    json.RawMessage // nil if absent
}

// Error returns a text for the log; it cuts a long message.
func (e *RPCError) Error() string {
	return fmt.Sprintf("upstream error %d: %s", e.Code, text.Clip(e.Message, 256))
}

// A CallError is a call without a result for the caller. Its text is for the log; the caller gets
// [CallError.Message].
type CallError struct {
	Outcome Outcome

	// Delivered says that the call was sent and that the server may have executed it. Set it if
	// anything was sent, because false means proof that the server executed nothing.
	Delivered bool

	Repeatable bool   // the tool is read-only or idempotent: calling it twice does no harm
	Session    bool   // the last request had the id of a session that the server had opened
	Unpacked   bool   // of [ReasonTooLarge]: the answer was compressed, and may unpack to any size
	Note       string // one of the notes above; "": none
	Limit      int    // of [ReasonTooLarge]: longest result in bytes; 0: 4 MiB
	Item       string // "prompt", "resource" or [ItemTask]; "": a tool
}

func (e *CallError) Error() string {
	return fmt.Sprintf("call %q: %s: %s (delivered: %t)", e.Outcome.ServerID, e.Outcome.Reason, e.Outcome.Error, e.Delivered)
}

// Message returns what an agent may read about the failed call: what happened, whether the call
// may have taken effect, and what to do next. It contains nothing that the server sent.
func (e *CallError) Message(serverID string) string {
	if e.Note != "" {
		return e.message(serverID) + " " + e.Note
	}
	return e.message(serverID)
}

func (e *CallError) message(serverID string) string {
	if text := e.itemMessage(serverID); text != "" {
		return text
	}
	switch {
	case e.Outcome.Reason == ReasonTooLarge && e.Delivered && e.Unpacked:
		return fmt.Sprintf("The answer of MCP server '%s' could not be read: it is compressed, and larger than %.3g MiB when unpacked. "+
			"The call was sent and may have taken effect; check before calling again, and ask for less.", serverID, e.limit())
	case e.Outcome.Reason == ReasonTooLarge && e.Delivered:
		return fmt.Sprintf("The tool ran, but its result is too large to pass on (over %.3g MiB). Ask for less; do not repeat a write.", e.limit())
	case e.Delivered && e.Repeatable:
		return e.happened(serverID) + " The call was sent. The tool is annotated as " +
			"read-only or idempotent, so you can call it again."
	case e.Delivered:
		return e.happened(serverID) + " The call was sent and may have taken effect; check before calling again."
	case e.Session && e.Outcome.Reason == ReasonNotFound: // the address is right
		return "MCP server '" + serverID + "' does not know the session that it has just opened. The call was not carried out. You may try once more; " +
			"if this happens again, its owner has to fix it: often several copies of a server share one address, and each knows only its own sessions."
	case e.Outcome.Status == Permanent, e.Outcome.Status == Denied:
		return e.unsent(serverID) + " The call was not carried out."
	}
	again := "shortly"
	if s := e.RetryAfter(); s > 0 {
		again = "in " + strconv.Itoa(s) + " s"
	}
	if e.Outcome.Reason == ReasonDescriptors {
		return e.unsent(serverID) + " The call was not carried out: call again " + again + "."
	}
	return e.unsent(serverID) + " The call was not carried out and the gateway does not repeat " +
		"it: call again " + again + "."
}

// unsent returns why a request was not carried out.
func (e *CallError) unsent(serverID string) string {
	switch {
	case e.Outcome.Status == Permanent, e.Outcome.Status == Denied:
		return e.Outcome.Message(serverID)
	case e.Outcome.Reason == ReasonDescriptors:
		return "The gateway has too many connections open at the moment, and did not reach " +
			"MCP server '" + serverID + "'."
	}
	return "MCP server '" + serverID + "' " + e.transient() + "."
}

// RetryAfter returns after how many seconds the call may be repeated. It returns 0 if the server
// gave no time, or if a repeated call might take effect twice or fail again.
func (e *CallError) RetryAfter() int {
	if e.Delivered && !e.Repeatable || e.Outcome.Status != Transient {
		return 0
	}
	return int(math.Ceil(e.Outcome.RetryAfter.Seconds()))
}

// transient returns the cause of a transient failure of a call that was not executed.
func (e *CallError) transient() string {
	switch e.Outcome.Reason {
	case ReasonRateLimited:
		return "takes no more calls for the moment"
	case ReasonNoProcess:
		return "needs a process, and all that may run for this agent now are in use"
	case ReasonBreakerOpen:
		return "failed several times in a row, and the gateway pauses its calls"
	}
	return "is starting up or briefly unavailable"
}

// happened returns what happened to a call that was sent.
func (e *CallError) happened(serverID string) string {
	o := e.Outcome
	switch {
	case o.HTTPStatus >= 300:
		return "MCP server '" + serverID + "' answered with HTTP status " + strconv.Itoa(o.HTTPStatus) + "."
	case o.Reason == ReasonTimeout, o.Reason == ReasonAborted:
		return "No answer" + after(o.Duration) + "."
	case o.Reason == ReasonReset:
		return "The connection to MCP server '" + serverID + "' broke before its answer was complete."
	case o.Reason == ReasonExited:
		return "The program of MCP server '" + serverID + "' ended before its answer was complete."
	case o.Reason == ReasonProtocol, o.Reason == ReasonNotMCP, o.Reason == ReasonNotHTTP, o.Reason == ReasonVersion:
		return "MCP server '" + serverID + "' gave an answer that is not valid MCP."
	case o.Reason == ReasonInternal:
		return "The gateway could not process the response of MCP server '" + serverID + "'."
	}
	return "The call to MCP server '" + serverID + "' failed."
}

// after returns how long the gateway waited for an answer, "" if unknown.
func after(d time.Duration) string {
	switch {
	case d <= 0:
		return ""
	case d < time.Second:
		return " after " + strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	}
	return " after " + strconv.Itoa(int(d.Round(time.Second)/time.Second)) + " s"
}
