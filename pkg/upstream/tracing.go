package upstream

import (
	"cmp"
	"context"

	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// withTrace returns the call with the trace that its server is told of, if it is told of one.
func (c *Client) withTrace(ctx context.Context, t Target, call Call) Call {
	told := c.o.Trace != nil && c.o.Trace(t.ID)
	own := observe.TraceParent(ctx)
	if told && own == "" {
		return call
	}
	call.Traceparent = ""
	if told {
		call.Traceparent = own
	}
	var rest rawjson.Object
	for _, m := range call.Meta {
		if m.Name != "traceparent" && m.Name != "tracestate" {
			rest = append(rest, m)
		}
	}
	call.Meta = rest
	return call
}

// endSpan says on a span how a load or a call ended, in codes.
func endSpan(s observe.Span, o outcome.Outcome) outcome.Outcome {
	s.Name("server", o.ServerID)
	s.Name("outcome", string(o.Status))
	s.Count("attempts", o.Attempts)
	if o.Status != outcome.Available && o.Recorded() {
		s.Fail(cmp.Or(o.Reason, string(o.Status)))
	}
	return o
}
