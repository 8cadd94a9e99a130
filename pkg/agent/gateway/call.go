package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

const callPrefix = "call_tool_"

// variant returns the gateway's tool that calls tools of a tier.
func variant(t tool.Tier) string { return callPrefix + t.String() }

// tierOf returns the tier that a variant may call.
func tierOf(name string) (tool.Tier, bool) {
	for _, t := range []tool.Tier{tool.Read, tool.Write, tool.Destructive} {
		if name == variant(t) {
			return t, true
		}
	}
	return tool.Destructive, false
}

// CallTool answers tools/call. [mcp.Parse] has checked r. c receives the server's messages and
// questions during the call. CallTool returns the result of an upstream tool with its original
// bytes. An error is an [*mcp.Error], or says that ctx ended.
func (s *Session) CallTool(ctx context.Context, r mcp.Request, c mcp.Client) (json.RawMessage, error) {
	return s.checked(ctx, r, c, s.callTool)
}

// checked answers a call with the function do, if the audit can be written, and within the time
// limit of the request.
func (s *Session) checked(ctx context.Context, r mcp.Request, c mcp.Client,
	do func(context.Context, mcp.Request) (json.RawMessage, error)) (json.RawMessage, error) {
	s.client = c
	s.begin(r.Name)
	s.event.SetArguments(r.Arguments)
	if fault := s.checkAudit(ctx); fault != nil {
		return s.refuse(unauditedText(fault))
	}
	ctx, cancel := context.WithTimeout(ctx, s.requestTime())
	defer cancel()
	raw, err := do(ctx, r)
	if _, rpc := errors.AsType[*mcp.Error](err); !rpc && errors.Is(err, context.DeadlineExceeded) {
		// A request that was sent upstream has its own answer already.
		return s.refuse(ranOut)
	}
	return raw, err
}

// requestTime returns the time limit of the request.
func (s *Session) requestTime() time.Duration {
	limit := s.g.o.CallTime + approvalTime
	if s.client.Ask != nil { // add the time for a person's answers
		limit += maxRequests * mcp.AskTime
	}
	return limit
}

func (s *Session) callTool(ctx context.Context, r mcp.Request) (json.RawMessage, error) {
	if s.down {
		return s.refuse(downText(s.st.Health))
	}
	if s.direct {
		i, ok := s.findDirect(tool.Tool, r.Name)
		switch {
		case !ok && r.Name == requestAccess && s.canAsk():
			return s.callRequestAccess(ctx, r)
		case !ok:
			return s.callOfPage(ctx, r)
		}
		return s.callDirect(ctx, i, r)
	}
	if tier, ok := tierOf(r.Name); ok {
		return s.callVariant(ctx, tier, r)
	}
	switch r.Name {
	case retrieveTools:
		s.loadGrants(ctx)
		return s.retrieve(ctx, r)
	case describeTools:
		s.loadGrants(ctx)
		return s.describe(r)
	case upstreamServers:
		s.loadGrants(ctx)
		return s.listServers(r)
	case readResource:
		if s.Offers().Resources { // locked resources return the reason
			return s.callReadResource(ctx, r)
		}
	case requestAccess:
		if s.canAsk() {
			return s.callRequestAccess(ctx, r)
		}
	}
	return s.callOther(ctx, r)
}

func (s *Session) unknownTool(name string) *mcp.Error {
	s.event.Decide(audit.Scope, "")
	return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "Unknown tool: " + quote(name)}
}

// callVariant answers one of the three tools that call other tools.
func (s *Session) callVariant(ctx context.Context, tier tool.Tier, r mcp.Request) (json.RawMessage, error) {
	a := readArguments(r, "name", "args")
	name := a.text("name", true, "a tool's name of the form server:tool, as retrieve_tools gives it")
	r.Arguments = a.object("args")
	s.event.Tool = name
	s.event.SetArguments(r.Arguments)
	if fault := a.fault(); fault != "" {
		return s.refuse(fault)
	}
	i, ok := s.findNamed(name)
	if only, isAppOnly := s.findAppOnly(name); isAppOnly {
		return s.refuse(appOnlyText(s.view.ID(only)) + " Nothing was called.")
	}
	if !ok {
		s.event.Decide(audit.Scope, "")
		return s.refuse("Tool " + quote(name) + " was not found. retrieve_tools finds tools by what they do; names have the form server:tool.")
	}
	return s.call(ctx, i, tier, r)
}

// call sends a tool's call upstream, if the tool is not locked and the caller may use its tier. r
// has the tool's own arguments. The argument as is the tier of the variant that the agent called.
func (s *Session) call(ctx context.Context, i int, as tool.Tier, r mcp.Request) (json.RawMessage, error) {
	id := s.view.ID(i)
	s.event.Tool = id.String()
	s.event.Definition = s.view.Tool(i).Definition.Hash
	r, back := s.withoutAsk(ctx, r)
	now := s.lockState(ctx, i)
	if now.status != lock.None {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if r.Rest.Get(requestState) != nil {
			t, c := s.outgoing(i, r)
			s.cancelPending(ctx, t, c)
		}
		if now.refuse != nil {
			return nil, now.refuse
		}
		return s.refuseLocked(ctx, i, now, r, back)
	}
	tier := s.view.Tier(i)
	if as > tier { // the strongest tier comes first
		s.event.Decide(audit.Tier, "")
		return s.refuse("Tool " + strconv.Quote(id.String()) + " is " + tier.String() + ": call it with " + variant(tier) + ", not " + variant(as) + ". Nothing was called.")
	}
	if !slices.Contains(s.caller.Agent.Tiers, tier) {
		if s.view.Confirmed().Has(i) && s.g.o.Requests != nil {
			wish := s.newRequest(i, lock.PendingApproval)
			wish.Args = request.HashArgs(r.Arguments)
			s.noteLackOf(ctx, wish, now, s.g.need(tier))
		}
		return nil, s.outOfTier(tier, tierText(id, tier))
	}
	if fault := s.checkHeaders(i, r.Arguments); fault != nil {
		return nil, fault
	}
	server, hash := s.view.Server(i).Config, s.view.Tool(i).Definition.Hash
	if o, ok := s.recentFailure(s.view.Server(i)); ok && r.Rest.Get(requestState) == nil {
		s.event.Allow(hash)
		s.event.Outcome = string(o.Status)
		return Failed(server.Name, &outcome.CallError{Outcome: o}, s.meta(), "")
	}
	t, c := s.outgoing(i, r)
	if s.view.Confirmed().Has(i) {
		s.confirm.isRequired, c.Retry, c.Once = true, false, true // a confirmed call is sent once
		c.Rest, c.Meta = shownAlone(c.Rest, c.Meta)
		if raw, err := s.checkConfirmation(ctx, i, now, r, back); raw != nil || err != nil {
			return raw, err
		}
	}
	s.event.Allow(hash)
	if s.confirm.grant == "" {
		s.event.Request = now.by
	}
	s.target = observe.Target{Name: id.String(), By: tier.String()}
	c.Tasks = s.acceptsTasks()
	ctx = now.withConnection(ctx)
	raw, err := s.exchange(ctx, t, c)
	if err == nil {
		raw, err = s.sealTask(ctx, i, t, c, raw)
	}
	if err != nil {
		return s.renderFailure(ctx, server.Name, s.taskRefusal(err))
	}
	return raw, nil
}

// outgoing returns the call of a tool for its server.
func (s *Session) outgoing(i int, r mcp.Request) (upstream.Target, upstream.Call) {
	server, hints := s.view.Server(i), s.view.Hints(i)
	return catalog.Target(server.Config, server.Outcome), upstream.Call{
		Owner:       s.owner(),
		Client:      s.client,
		Name:        s.view.ID(i).Name,
		Arguments:   r.Arguments,
		Rest:        r.Rest,
		Meta:        r.Meta,
		Traceparent: s.caller.Traceparent,
		Schema:      s.view.Tool(i).Definition.InputSchema,
		Retry:       isTrue(hints.ReadOnlyHint) || isTrue(hints.IdempotentHint),
	}
}

// owner returns the owner of sessions with servers and of pending calls.
func (s *Session) owner() session.Owner {
	o := s.caller.Agent.Owner()
	o.Client = s.caller.Session
	return o
}

func isTrue(b *bool) bool { return b != nil && *b }
