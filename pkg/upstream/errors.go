package upstream

import (
	"fmt"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/sse"
)

// The errors below are faults that this package detects. The classifier uses their types; their
// texts are for the log.

// A configError is a fault of the configuration. The gateway sent nothing.
type configError struct {
	msg string
	err error // may be nil
}

func (e *configError) Error() string {
	if e.err == nil {
		return e.msg
	}
	return e.msg + ": " + e.err.Error()
}

func (e *configError) Unwrap() error { return e.err }

// A credentialError is a secret that the gateway could not read, though it may exist.
type credentialError struct{ err error }

func (e *credentialError) Error() string { return "credential: " + e.err.Error() }
func (e *credentialError) Unwrap() error { return e.err }

// A protocolError is an answer that breaks the rules of HTTP, JSON-RPC or MCP.
type protocolError struct {
	reason string // ReasonProtocol, ReasonNotMCP or ReasonVersion
	msg    string
}

func (e *protocolError) Error() string { return e.msg }

func brokenProtocol(format string, args ...any) error {
	return &protocolError{outcome.ReasonProtocol, fmt.Sprintf(format, args...)}
}

// A statusError is an HTTP status without an answer. The exchange decides its meaning, because the
// status may come from an earlier attempt.
type statusError struct {
	status int
	body   string // the kept part of the body
}

func (e *statusError) Error() string {
	if e.body == "" {
		return fmt.Sprintf("http status %d", e.status)
	}
	return fmt.Sprintf("http status %d, body %s", e.status, text.Quote(e.body, 256))
}

// A panicError is a recovered panic.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// errStreamEnded says that an event stream ended before the reply.
var errStreamEnded = sse.ErrEnded

// A tokenError says that the gateway could not read or renew the access token of a sign-in. A later
// attempt may succeed.
type tokenError struct{ err error }

func (e *tokenError) Error() string { return "access token: " + e.err.Error() }
func (e *tokenError) Unwrap() error { return e.err }
