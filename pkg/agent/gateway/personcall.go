package gateway

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// CallByID calls the tool with an id for a person who is not an MCP client. All checks of an
// agent's call apply: operator rules, approvals, stops, tiers and confirmations. Nobody answers the
// server's questions. The error is an [*mcp.Error], or says that ctx ended.
func (g *Gateway) CallByID(
	ctx context.Context, c Caller, id string, arguments json.RawMessage,
) (json.RawMessage, error) {
	params := rawjson.Object{{Name: "name", Value: rawjson.Quote(id)}}
	if len(arguments) > 0 {
		params.Add("arguments", arguments)
	}
	body := rawjson.Object{
		{Name: "jsonrpc", Value: rawjson.Quote("2.0")}, {Name: "id", Value: []byte("1")},
		{
			Name:  "method",
			Value: rawjson.Quote(mcp.MethodCallTool),
		}, {Name: "params", Value: params.Bytes()},
	}
	r, fault := mcp.Parse(body.Bytes())
	if fault == nil && len(arguments) > 0 &&
		!bytes.HasPrefix(bytes.TrimSpace(arguments), []byte("{")) {
		fault = &mcp.Error{Code: mcp.CodeInvalidParams, Message: "the arguments are no JSON object"}
	}
	if fault != nil {
		return nil, fault
	}
	s, err := g.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	return s.checked(ctx, r, mcp.Client{}, s.callID)
}

// callID calls the tool that the request names by its id.
func (s *Session) callID(ctx context.Context, r mcp.Request) (json.RawMessage, error) {
	if s.down {
		return s.refuse(downText(s.st.Health))
	}
	i, ok := s.findNamed(r.Name)
	if !ok {
		s.event.Decide(audit.Scope, "")
		return s.refuse(
			"Tool " + quote(r.Name) + " was not found. Names have the form server:tool.",
		)
	}
	return s.call(ctx, i, tool.Destructive, r)
}
