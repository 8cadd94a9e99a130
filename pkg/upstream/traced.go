package upstream

import (
	"cmp"
	"context"

	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/trace"
)

// traced returns the call with the trace that its server is told of, if it is told of one.
func (c *Client) traced(ctx context.Context, t Target, call Call) Call {
	told := c.o.Trace != nil && c.o.Trace(t.ID)
	own := trace.Parent(ctx)
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

// spanned says on a span how a load or a call ended, in codes.
func spanned(s trace.Span, o outcome.Outcome) outcome.Outcome {
	s.Name("server", o.ServerID)
	s.Name("outcome", string(o.Status))
	s.Count("attempts", o.Attempts)
	if o.Status != outcome.Available && o.Recorded() {
		s.Fail(cmp.Or(o.Reason, string(o.Status)))
	}
	return o
}
