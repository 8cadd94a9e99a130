package upstream

import (
	"context"

	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// withTrace returns the call with the trace for its server, if the server gets one.
func (c *Client) withTrace(ctx context.Context, t Target, call Call) Call {
	isTraced := c.o.Trace != nil && c.o.Trace(t.ID)
	own := observe.TraceParent(ctx)
	if isTraced && own == "" {
		return call
	}
	call.Traceparent = ""
	if isTraced {
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
