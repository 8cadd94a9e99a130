package mcphttp

import (
	"context"
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// task answers a request about a task from the backend.
func (h *handler) task(ctx context.Context, q *request) (json.RawMessage, error) {
	return h.answerTask(ctx, q, q.session, q.msg)
}

// answerTask answers the request m, which the client of q sent or subscribed to.
func (h *handler) answerTask(
	ctx context.Context, q *request, s Session, m mcp.Request,
) (json.RawMessage, error) {
	raw, err := s.AnswerTask(ctx, m, mcp.Client{Capabilities: q.capabilities()})
	if failure := h.unansweredError(q, err); failure != nil {
		return nil, gateway.FailedTask("", failure)
	}
	if err != nil {
		return nil, err
	}
	d := h.decorator(q, false)
	d.plain = true
	if result := rawjson.Get(raw, "result"); result != nil { // what the call would have answered
		if result, err = h.callResult(d, result); err != nil {
			return nil, err
		}
		raw = rawjson.Set(raw, "result", result)
	}
	if raw, err = d.decorate(raw); err != nil {
		return nil, err
	}
	if limit := exceeded(raw, h.opts.MaxResponse, !h.opts.Stream); limit > 0 {
		return nil, gateway.FailedTask("", tooLarge(limit))
	}
	return raw, nil
}
