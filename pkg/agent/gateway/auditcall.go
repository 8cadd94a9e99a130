package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// noAudit is the refusal if the config requires an audit line for each call.
const noAudit = "Nothing was called: the gateway's operator requires that every call is written to the audit, and it cannot be written at the moment. " +
	"Tell your user that the operator has to look at the gateway's health page, and call again later."

// fullAudit replaces noAudit if the audit has reached the operator's size limit.
const fullAudit = "Nothing was called: the gateway's operator requires that every call is written to the audit, and the audit has reached the size that the operator set. " +
	"Tell your user that the operator has to make room; calling again before that does not help."

// unauditedText returns the refusal for the agent; err is the reason.
func unauditedText(err error) string {
	if errors.Is(err, audit.ErrLimit) {
		return fullAudit
	}
	return noAudit
}

// begin records the requested name for the audit.
func (s *Session) begin(name string) {
	s.event.Tool = name
	s.event.Redacted = s.st.Config != nil && s.st.Config.Audit.Arguments == "redacted"
}

// checkAudit returns an error if the call must not run, because the config requires its audit line
// and the gateway cannot write the line.
func (s *Session) checkAudit(ctx context.Context) error {
	if s.g.o.Audit == nil || s.st.Config == nil || !s.st.Config.Audit.Required {
		return nil
	}
	err := s.g.o.Audit.Ready(ctx)
	if err != nil {
		s.g.o.Log.LogAttrs(ctx, slog.LevelError, "call refused, because the audit cannot be written", slog.Any("error", err))
	}
	return err
}

// request sends a request upstream, and records whether it was sent and how it ended.
func (s *Session) request(ctx context.Context, t upstream.Target, c upstream.Call) (json.RawMessage, error) {
	s.event.Counts.Called = s.target
	raw, err := s.g.up.Call(ctx, t, c)
	s.noteSent(c, err)
	s.event.Outcome = auditResult(ctx, err)
	return raw, err
}

// noteStopped records that a server or the agent itself is stopped.
func (s *Session) noteStopped(status lock.Status) { s.event.Decide(audit.Stopped, string(status)) }

// noteCancelled records that a stop cancelled the call, if err says so.
func (s *Session) noteCancelled(err error) {
	if _, ok := errors.AsType[stopError](err); ok {
		s.noteStopped("")
	}
}

// noteSent records the arguments of a request, unless err proves that the gateway did not send the
// request.
func (s *Session) noteSent(c upstream.Call, err error) {
	if call, ok := errors.AsType[*outcome.CallError](err); ok && !call.Delivered {
		return
	}
	switch c.Method {
	case mcp.MethodReadResource: // the URI is the whole request
	case mcp.MethodComplete:
		s.event.SetSentArguments(c.Rest.Get("argument"))
	case mcp.MethodUpdateTask:
		s.event.SetSentArguments(c.Rest.Get(inputResponses))
	default:
		s.event.SetSentArguments(c.Arguments)
	}
}

// notePending records the state of a pending call when this request ends. A request that contains
// an answer did not make the call, so it has no arguments to record.
func (s *Session) notePending(ctx context.Context, p *pendingCall, made bool, err error) {
	if made {
		s.noteSent(p.call, err)
		s.noteCancelled(err)
	}
	s.event.Outcome = auditResult(ctx, err)
}

// auditResult returns the result of a request to a server, as the audit names it.
func auditResult(ctx context.Context, err error) string {
	_, answered := errors.AsType[*outcome.RPCError](err)
	call, failed := errors.AsType[*outcome.CallError](err)
	switch {
	case err == nil, answered:
		return string(outcome.Available)
	case failed && call.Outcome.Recorded():
		return string(call.Outcome.Status)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return string(outcome.Transient)
	}
	return audit.Cancelled
}
