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
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
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
	Agent     string          `json:"agent,omitempty" maxLength:"2048" doc:"id of a known agent, or the ARN of a signer: the call has its servers, tiers and toolsets; absent: every server and tier. The caller in policies and in the audit stays person:NAME"`
}

// A CallAnswer is the result of a call.
type CallAnswer struct {
	Agent    string          `json:"agent" doc:"the caller in policies and in the audit: person:NAME"`
	Decision string          `json:"decision" enum:"allowed,locked,tier,scope,stopped,refused" doc:"what the gateway decided. allowed: the server may have got the call; otherwise it did not"`
	Result   json.RawMessage `json:"result" doc:"what the tool returned, or, with isError, why the gateway refused the call"`
}

// A CallLock says why the gateway refused a call.
type CallLock struct {
	Name, Status, Remediation, Note string
	Confirm                         struct{ Request string } // each call waits for a person
}

// Lock returns why the gateway refused the call; nil: it did not, or the reason is no lock.
func (a CallAnswer) Lock() *CallLock {
	var result struct {
		Meta struct {
			Lock *CallLock `json:"dev.portcullis/lock"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(a.Result, &result) // a result without the member has no lock
	return result.Meta.Lock
}

// CanCall reports whether people can call tools here.
func (d *Service) CanCall() bool { return d.o.Caller != nil }

// Call calls a tool for the person, with the scope of an agent or with every server and tier, as
// operators may. The gateway checks the call as it checks an agent's. The audit has the call under
// the person's name.
func (d *Service) Call(ctx context.Context, q CallQuery) (CallAnswer, error) {
	scope, err := d.CheckCall(ctx, q)
	if err != nil {
		return CallAnswer{}, err
	}
	who := ActorOf(ctx)
	c := gateway.Caller{Event: new(audit.CallEvent), Agent: identity.Agent{
		ID: identity.PersonAgent(who.Name), Subject: who.Subject, Way: identity.WayPerson,
		Servers: scope.Servers, Tiers: scope.Tiers, Toolsets: scope.Toolsets,
	}}
	if q.Agent != "" {
		c.Event.Note = "with the scope of the agent " + truncate(scope.ID)
	}
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
	return CallAnswer{c.Agent.ID, c.Event.Decision, raw}, err
}

// CheckCall returns an agent with the servers, tiers and toolsets of a call, or an error if the
// call cannot be made.
func (d *Service) CheckCall(ctx context.Context, q CallQuery) (identity.Agent, error) {
	var object map[string]json.RawMessage
	err := json.Unmarshal(q.Arguments, &object)
	switch {
	case !d.CanCall():
		return identity.Agent{}, Refuse(http.StatusNotImplemented, "agents' calls do not run in "+
			"this process, and nothing was called: call the tool at /mcp with an agent token")
	case len(q.Arguments) > 0 && (err != nil || object == nil):
		return identity.Agent{}, invalid("arguments must be a JSON object, such as " +
			`{"path": "a.txt"}; nothing was called`)
	case q.Agent == "":
		return SearchQuery{}.hypothetical("")
	}
	a, ok, err := d.knownAgent(ctx, q.Agent)
	switch is, stopped := d.Stopped(ctx, a.ID); {
	case err != nil:
		return a, err
	case !ok: // the claims of a JWT say what its agent may call, and the gateway does not store them
		return a, invalid("agent: the gateway does not know what %s may call, and nothing was "+
			"called: name an agent that has an agent token, or leave agent out for every server "+
			"and tier", text.Quote(q.Agent, 80))
	case stopped:
		return a, conflict("the agent %s is %s; nothing was called", text.Quote(a.ID, 80), is.Note())
	}
	return a, nil
}
