package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// remembered returns how the tool's server failed to load, if that was so short a
// time ago that asking it again is of no use.
func (s *Session) remembered(i int) (upstream.Outcome, bool) {
	o, now := s.view.Server(i).Outcome, s.g.o.Now()
	if !o.Recorded() || o.Status == upstream.Available || o.Stale(now) {
		return upstream.Outcome{}, false
	}
	if o.Status == upstream.Transient {
		o.RetryAfter = max(o.RetryAfter, o.CheckedAt.Add(upstream.TTL(o.Status)).Sub(now))
	}
	return o, true
}

// failed renders a call that the tool did not answer.
func (s *Session) failed(ctx context.Context, server string, err error) (json.RawMessage, error) {
	if own, ok := errors.AsType[*upstream.RPCError](err); ok {
		return nil, &Error{Code: int(own.Code), Message: own.Message, Data: own.Data, Err: err}
	}
	s.g.o.Log.LogAttrs(ctx, slog.LevelWarn, "upstream call failed", slog.String("server", server), slog.Any("error", err))
	call, ok := errors.AsType[*upstream.CallError](err)
	if !ok {
		return nil, err
	}
	o := call.Outcome
	if !o.Recorded() { // the call was given up: by the caller, who reads nothing, or for want of time
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, err
		}
		o.Status, o.Reason = upstream.Transient, upstream.ReasonTimeout
	}
	return s.failedWith(server, o)
}

func (s *Session) failedWith(server string, o upstream.Outcome) (json.RawMessage, error) {
	type trouble struct {
		Server     string          `json:"server"`
		Status     upstream.Status `json:"status"`
		Reason     string          `json:"reason"`
		RetryAfter int             `json:"retry_after,omitempty"` // seconds
	}
	meta := s.meta()
	if meta == nil {
		meta = map[string]any{}
	}
	meta["dev.portcullis/upstream"] = trouble{server, o.Status, o.Reason, int((o.RetryAfter + time.Second - 1) / time.Second)}
	return result(upstream.Message(server, o), true, meta)
}
