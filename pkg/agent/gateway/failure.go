package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// recentFailure returns a server's failed load if it was so recent that another attempt is useless.
func (s *Session) recentFailure(server state.Server) (outcome.Outcome, bool) {
	o, now := server.Outcome, s.g.o.Now()
	if !o.Recorded() || o.Status == outcome.Available || o.Stale(now) {
		return outcome.Outcome{}, false
	}
	if o.Status == outcome.Transient {
		o.RetryAfter = max(o.RetryAfter, o.CheckedAt.Add(o.Status.TTL()).Sub(now))
	}
	return o, true
}

// renderFailure renders a call that the tool did not answer.
func (s *Session) renderFailure(ctx context.Context, server string, err error) (json.RawMessage, error) {
	if refused, ok := errors.AsType[*inputError](err); ok {
		return s.refuse(refused.text)
	}
	failure, err := s.failure(ctx, server, err)
	if err != nil {
		return nil, err
	}
	return Failed(server, failure, s.meta(), s.confirm.spentText(failure.Delivered))
}

// failure returns the failure of a request that a server did not answer. If err is the server's
// JSON-RPC error or the gateway's own error, failure returns it as the client's error.
func (s *Session) failure(ctx context.Context, server string, err error) (*outcome.CallError, error) {
	if rpc, ok := errors.AsType[*outcome.RPCError](err); ok {
		return nil, &mcp.Error{Code: int(rpc.Code), Message: rpc.Message, Data: rpc.Data, Err: err}
	}
	if _, own := errors.AsType[*mcp.Error](err); own {
		return nil, err // the gateway's own error
	}
	if errors.Is(ctx.Err(), context.Canceled) { // the caller went away: nobody reads the answer
		return nil, ctx.Err()
	}
	s.g.o.Log.LogAttrs(ctx, slog.LevelWarn, "upstream call failed", slog.String("server", server), slog.Any("error", err))
	call, ok := errors.AsType[*outcome.CallError](err)
	if !ok {
		return nil, err
	}
	if !call.Outcome.Recorded() { // the call ended early: its caller went away, or its time ran out
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, err
		}
		late := *call
		late.Outcome.Status, late.Outcome.Reason = outcome.Transient, outcome.ReasonTimeout
		call = &late
	}
	return call, nil
}

// Failed returns the result for a failed call: the text of [outcome.CallError.Message], and the
// same facts for programs in _meta["dev.portcullis/upstream"]. "delivered": true means that the
// call may have taken effect; otherwise it did not. meta has further members and may be nil. Failed
// appends the argument more to the text.
func Failed(server string, e *outcome.CallError, meta map[string]any, more string) (json.RawMessage, error) {
	all := map[string]any{upstreamKey: detailsOf(server, e)}
	maps.Copy(all, meta)
	return result(e.Message(server)+more, true, all)
}

// upstreamKey is the member of _meta that describes a server's failure for programs.
const upstreamKey = "dev.portcullis/upstream"

// details describe a failed call for programs.
type details struct {
	Server     string         `json:"server,omitempty"`
	Status     outcome.Status `json:"status"`
	Reason     string         `json:"reason"`
	Delivered  bool           `json:"delivered,omitempty"`
	RetryAfter int            `json:"retry_after,omitempty"` // seconds
}

func detailsOf(server string, e *outcome.CallError) details {
	return details{server, e.Outcome.Status, e.Outcome.Reason, e.Delivered, e.RetryAfter()}
}
