package decide

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A ToolCaller calls tools with the checks of an agent's call; *gateway.Gateway is one.
type ToolCaller interface {
	CallByID(
		ctx context.Context,
		c gateway.Caller,
		id string,
		arguments json.RawMessage,
	) (json.RawMessage, error)
}

// A CallQuery is a call of a tool by a person.
type CallQuery struct {
	Tool      string          `json:"tool" maxLength:"4096" doc:"server:tool"`
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"a JSON object; absent: no arguments"`
}

// A CallAnswer is the result of a call.
type CallAnswer struct {
	Agent  string          `json:"agent" doc:"the caller in policies and in the audit: person:NAME"`
	Result json.RawMessage `json:"result" doc:"what the tool returned, or, with isError, why the gateway refused the call"`
}

// Call calls a tool for the person, who may use every tier, as operators may. The gateway checks
// the call as it checks an agent's. The audit has the call under the person's name.
func (d *Service) Call(ctx context.Context, q CallQuery) (CallAnswer, error) {
	if d.o.Caller == nil {
		return CallAnswer{}, Refuse(http.StatusNotImplemented, "agents' calls do not run in this "+
			"process, and nothing was called: call the tool at /mcp with an agent token")
	}
	who := ActorOf(ctx)
	c := gateway.Caller{Event: new(audit.CallEvent), Agent: identity.Agent{
		ID: identity.PersonAgent(who.Name), Subject: who.Subject, Way: identity.WayPerson,
		Servers: []string{"*"}, Tiers: []tool.Tier{tool.Read, tool.Write, tool.Destructive},
	}}
	began := time.Now()
	raw, err := d.o.Caller.CallByID(ctx, c, q.Tool, q.Arguments)
	if err != nil {
		c.Event.Refuse()
	}
	c.Event.Tool = cmp.Or(c.Event.Tool, q.Tool)
	c.Event.Method, c.Event.Path, c.Event.Source = mcp.MethodCallTool, "/admin/call", who.Source
	c.Event.Agent, c.Event.Human = c.Agent.ID, who.Name
	c.Event.Ms = float64(time.Since(began).Microseconds()) / 1000
	c.Event.Decision = cmp.Or(c.Event.Decision, audit.Allowed)
	_ = d.o.Audit.Write(
		context.WithoutCancel(ctx),
		c.Event.End(d.o.Now()),
	) // Write logs its own errors
	if fault, ok := errors.AsType[*mcp.Error](err); ok {
		return CallAnswer{}, Refuse(
			http.StatusUnprocessableEntity,
			"the call failed: "+fault.Message,
		)
	}
	return CallAnswer{c.Agent.ID, raw}, err
}
