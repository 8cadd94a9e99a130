package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// get requests item i, a prompt or a resource, from its server, unless the item is locked. name is
// the server's name of the item.
func (s *Session) get(ctx context.Context, i int, name string, r mcp.Request) (json.RawMessage, error) {
	s.event.Tool = s.view.ID(i).String()
	now, refused := s.checkLock(ctx, i)
	if refused != nil {
		return nil, refused
	}
	return s.send(now.withConnection(ctx), s.view.Server(i), s.view.ID(i), name, r)
}

// checkLock returns the state of an item, and an error that refuses the request if the item is
// locked now.
func (s *Session) checkLock(ctx context.Context, i int) (lockState, error) {
	s.event.Definition = s.view.Tool(i).Definition.Hash
	now := s.lockState(ctx, i)
	if now.status == lock.None {
		return now, nil
	}
	if err := ctx.Err(); err != nil {
		return now, err
	}
	if now.refuse != nil {
		return now, now.refuse
	}
	return now, s.lockedError(ctx, i, now)
}

// lockedError returns an error for a locked item, with the text that a call of a locked tool
// returns.
func (s *Session) lockedError(ctx context.Context, i int, now lockState) error {
	l, _ := s.lockOf(ctx, i, now)
	s.countLocked(ctx, l, s.view.Verdict(i))
	return l.refusal(s.view.ID(i).Kind)
}

// send requests a prompt or a resource from a server. Metrics and audit use id.
func (s *Session) send(ctx context.Context, server state.Server, id tool.ID, name string, r mcp.Request) (json.RawMessage, error) {
	if !slices.Contains(s.caller.Agent.Tiers, tool.Read) {
		return nil, s.outOfTier(tool.Read,
			"This agent may not read, and "+strconv.Quote(id.String())+" is read.")
	}
	s.event.Allow(s.definition(id))
	if o, ok := s.recentFailure(server); ok && r.Rest.Get(requestState) == nil {
		s.event.Outcome = string(o.Status)
		return nil, FailedItem(server.Config.Name, id.Kind, &outcome.CallError{Outcome: o})
	}
	s.target = observe.Target{Name: id.String(), By: tool.Read.String()}
	raw, err := s.exchange(ctx, catalog.Target(server.Config, server.Outcome), upstream.Call{
		Owner:       s.owner(),
		Client:      s.client,
		Method:      r.Method,
		Name:        name,
		Arguments:   r.Arguments,
		Rest:        r.Rest,
		Meta:        r.Meta,
		Traceparent: s.caller.Traceparent,
		Retry:       true,
	})
	if refused, ok := errors.AsType[*inputError](err); ok {
		return nil, &mcp.Error{Code: mcp.CodeUpstream, Message: refused.about(id.Kind)}
	}
	if err != nil {
		failure, err := s.failure(ctx, server.Config.Name, err)
		if err != nil {
			return nil, err
		}
		return nil, FailedItem(server.Config.Name, id.Kind, failure)
	}
	return raw, nil
}

// definition returns the hash of an item's definition, or "" if no server listed it.
func (s *Session) definition(id tool.ID) tool.Hash {
	if i, ok := s.view.Find(id); ok {
		return s.view.Tool(i).Definition.Hash
	}
	return ""
}

// FailedItem returns the error for a prompt or a resource that could not be read: the text of
// [outcome.CallError.Message], with the same data as a failed call's
// _meta["dev.portcullis/upstream"].
func FailedItem(server string, kind tool.Kind, e *outcome.CallError) *mcp.Error {
	return failedItem(server, kind.String(), e)
}

func failedItem(server, item string, e *outcome.CallError) *mcp.Error {
	failure := *e
	failure.Item = item
	data, err := rawjson.Encode(detailsOf(server, &failure))
	if err != nil {
		return &mcp.Error{Code: mcp.CodeInternal, Message: "internal error", Err: err}
	}
	return &mcp.Error{Code: mcp.CodeUpstream, Message: failure.Message(server), Data: data, Err: e}
}

// complete answers completion/complete. The server of the completed item answers it.
func (s *Session) complete(ctx context.Context, r mcp.Request) (json.RawMessage, error) {
	s.event.SetArguments(r.Rest.Get("argument"))
	i, err := s.completionTarget(r)
	if err != nil {
		return nil, err
	}
	ref := r.Ref
	if id := s.view.ID(i); id.Kind == tool.Prompt {
		ref = rawjson.Set(ref, "name", rawjson.Quote(id.Name))
	}
	r.Rest = append(rawjson.Object{{Name: "ref", Value: ref}}, r.Rest...)
	return s.get(ctx, i, "", r)
}

// completionTarget returns the prompt, template or resource of a completion.
func (s *Session) completionTarget(r mcp.Request) (int, error) {
	if r.Name != "" {
		if i, ok := s.findDirect(tool.Prompt, r.Name); ok {
			return i, nil
		}
		return 0, s.unknownPrompt(r.Name)
	}
	var targets []int
	for _, server := range s.view.Servers() {
		if i, ok := s.view.Find(tool.ID{Server: server.Config.Name, Name: r.URI, Kind: tool.Resource}); ok && s.sel.Resources.Has(i) {
			targets = append(targets, i)
		}
	}
	switch len(targets) {
	case 0:
		return 0, s.unknownURI(r.URI)
	case 1:
		return targets[0], nil
	}
	return 0, s.claimedTwice(r.URI, targets)
}
