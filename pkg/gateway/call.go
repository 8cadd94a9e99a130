package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/identity"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/session"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// variant returns the gateway's tool that calls tools of the tier.
func variant(t tool.Tier) string { return "call_tool_" + t.String() }

// tierOf returns the tier that a variant may call.
func tierOf(name string) (tool.Tier, bool) {
	for _, t := range []tool.Tier{tool.Read, tool.Write, tool.Destructive} {
		if name == variant(t) {
			return t, true
		}
	}
	return tool.Destructive, false
}

// CallTool answers tools/call; params is its params object as it was sent. The
// result of an upstream tool is returned as its server sent it. An error is an
// [*Error], or says that ctx ended.
func (s *Session) CallTool(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	raw, err := s.callTool(ctx, params)
	if _, told := errors.AsType[*Error](err); !told && errors.Is(err, context.DeadlineExceeded) {
		// What was sent upstream has an answer of its own by now.
		return s.refuse("The gateway ran out of time before it had an answer. Nothing was sent to a server: call again.")
	}
	return raw, err
}

func (s *Session) callTool(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	p, fault := readParams(params)
	if fault != nil {
		return nil, fault
	}
	if s.down {
		return s.refuse(downText(s.st.Health))
	}
	if s.direct {
		i, ok := s.findDirect(p.name)
		if !ok {
			return nil, unknownTool(p.name)
		}
		return s.call(ctx, i, tool.Destructive, params)
	}
	if tier, ok := tierOf(p.name); ok {
		return s.callVariant(ctx, tier, p)
	}
	switch p.name {
	case retrieveTools:
		return s.retrieve(ctx, p.arguments)
	case describeTools:
		return s.describe(p.arguments)
	case upstreamServers:
		return s.listServers(p.arguments)
	}
	return nil, unknownTool(p.name)
}

// params are those of a tools/call, as far as the gateway reads them.
type params struct {
	name      string
	arguments json.RawMessage // nil: none
	rest      rawjson.Object  // all others, such as requestState; without _meta
}

func readParams(raw json.RawMessage) (params, *Error) {
	list, err := members(raw)
	if err != nil {
		return params{}, &Error{Code: codeInvalidParams, Message: "Invalid params: params " + err.Error() + "."}
	}
	var p params
	for _, m := range list {
		switch m.Name {
		case "name":
			if m.Value[0] != '"' || json.Unmarshal(m.Value, &p.name) != nil {
				return params{}, &Error{Code: codeInvalidParams, Message: "Invalid params: name must be a string."}
			}
		case "arguments":
			p.arguments = m.Value
		case "_meta":
		default:
			p.rest.Add(m.Name, m.Value)
		}
	}
	if p.name == "" {
		return params{}, &Error{Code: codeInvalidParams, Message: "Invalid params: name is missing."}
	}
	return p, nil
}

func unknownTool(name string) *Error {
	return &Error{Code: codeInvalidParams, Message: "Unknown tool: " + quote(name)}
}

// callVariant answers one of the three tools that call others.
func (s *Session) callVariant(ctx context.Context, tier tool.Tier, p params) (json.RawMessage, error) {
	a := readArguments(p.name, p.arguments, "name", "args")
	name := a.text("name", true, "a tool's name of the form server:tool, as retrieve_tools gives it")
	args := a.object("args")
	if fault := a.fault(); fault != "" {
		return s.refuse(fault)
	}
	id, err := tool.ParseID(name)
	i, ok := s.find(id)
	if err != nil || !ok {
		return s.refuse("Tool " + quote(name) + " was not found. retrieve_tools finds tools by what they do; names have the form server:tool.")
	}
	return s.call(ctx, i, tier, p.upstream(args))
}

// upstream returns the params that the upstream server gets: the tool's own
// arguments, and whatever else the caller sent beside the name.
func (p params) upstream(args json.RawMessage) json.RawMessage {
	return append(rawjson.Object{{Name: "arguments", Value: args}}, p.rest...).Bytes()
}

// call sends a tool's call upstream, if the tool is open and the caller may use
// its tier. as is the tier of the variant by which it was called.
func (s *Session) call(ctx context.Context, i int, as tool.Tier, params json.RawMessage) (json.RawMessage, error) {
	id := s.view.ID(i)
	if status := s.statusNow(ctx, i); status != lock.None {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return s.blocked(ctx, i, status)
	}
	tier := s.view.Tier(i)
	if as > tier { // tiers are ordered strongest first
		return s.refuse("Tool " + strconv.Quote(id.String()) + " is " + tier.String() + ": call it with " + variant(tier) + ", not " + variant(as) + ". Nothing was called.")
	}
	if !slices.Contains(s.caller.Agent.Tiers, tier) {
		return nil, &Error{
			Code: http.StatusForbidden, Status: http.StatusForbidden,
			Message: "This agent may not call " + tier.String() + " tools, and " + strconv.Quote(id.String()) + " is one. It needs the scope " + tier.String() + ".",
			Err:     &identity.Error{Kind: identity.Scope, Scopes: []string{tier.String()}},
		}
	}
	if fault := s.checkHeaders(i, params); fault != nil {
		return nil, fault
	}
	server := s.view.Server(i).Config
	if o, ok := s.remembered(i); ok {
		return Failed(server.Name, &outcome.CallError{Outcome: o}, s.meta())
	}
	s.g.record(ctx, func(r Recorder) error { return r.Call(s.caller.Agent.ID, id.String(), tier.String()) })
	hints := s.view.Hints(i)
	raw, err := s.g.up.Call(ctx, catalog.Target(server, s.view.Server(i).Outcome), upstream.Call{
		Owner:  session.Owner{Way: s.caller.Agent.Way, Agent: s.caller.Agent.ID},
		Name:   id.Name,
		Params: params,
		Meta:   upstream.CallMeta{Raw: s.caller.Meta, Traceparent: s.caller.Traceparent},
		Schema: s.view.Tool(i).Definition.InputSchema,
		Retry:  isTrue(hints.ReadOnlyHint) || isTrue(hints.IdempotentHint),
	})
	if err != nil {
		return s.failed(ctx, server.Name, err)
	}
	return raw, nil
}

func isTrue(b *bool) bool { return b != nil && *b }

// statusNow classifies a tool by its approval record as it is in the store now.
// The store is asked only if the answer can matter.
func (s *Session) statusNow(ctx context.Context, i int) lock.Status {
	facts := s.view.FactsWithout(i)
	if facts.ServerEnabled != lock.Yes || facts.Denied != lock.No {
		return lock.Classify(facts)
	}
	ctx, cancel := context.WithTimeout(ctx, approvalTime)
	defer cancel()
	record, err := s.g.approvals.Get(ctx, s.view.ID(i))
	switch {
	case errors.Is(err, approval.ErrNotFound):
		facts = s.view.FactsAt(i, nil)
	case errors.Is(ctx.Err(), context.Canceled): // the caller went away
	case err != nil:
		s.g.o.Log.LogAttrs(ctx, slog.LevelError, "approval record cannot be read",
			slog.String("tool", s.view.ID(i).String()), slog.Any("error", err))
	default:
		facts = s.view.FactsAt(i, &record)
	}
	return lock.Classify(facts)
}
