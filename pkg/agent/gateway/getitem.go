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

// get asks the server of item i, a prompt or a resource, if the item is not locked. name is what the
// server knows it by.
func (s *Session) get(ctx context.Context, i int, name string, r mcp.Request) (json.RawMessage, error) {
	s.event.Tool = s.view.ID(i).String()
	if refused := s.locked(ctx, i); refused != nil {
		return nil, refused
	}
	return s.send(ctx, s.view.Server(i), s.view.ID(i), name, r)
}

// locked refuses a request about an item that is locked now; nil: it is not.
func (s *Session) locked(ctx context.Context, i int) error {
	s.event.Definition = s.view.Tool(i).Definition.Hash
	now := s.lockState(ctx, i)
	if now.status == lock.None {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if now.refuse != nil {
		return now.refuse
	}
	return s.lockedError(ctx, i, now)
}

// lockedError says of an item that is locked what the call of a locked tool says.
func (s *Session) lockedError(ctx context.Context, i int, now lockState) error {
	l, _ := s.lockOf(ctx, i, now)
	s.countLocked(ctx, l, s.view.Verdict(i))
	return l.refusal(s.view.ID(i).Kind)
}

// send asks a server for one of its prompts or resources. id is what it is counted as.
func (s *Session) send(ctx context.Context, server state.Server, id tool.ID, name string, r mcp.Request) (json.RawMessage, error) {
	if !slices.Contains(s.caller.Agent.Tiers, tool.Read) {
		return nil, s.outOfTier(tool.Read,
			"This agent may not read, and "+strconv.Quote(id.String())+" is read.")
	}
	s.event.Allow(s.definition(id))
	if o, ok := s.remembered(server); ok && r.Rest.Get(requestState) == nil {
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
	if refused, ok := errors.AsType[*notAsked](err); ok {
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

// definition returns the hash of an item's definition; "": no server listed it.
func (s *Session) definition(id tool.ID) tool.Hash {
	if i, ok := s.view.Find(id); ok {
		return s.view.Tool(i).Definition.Hash
	}
	return ""
}

// FailedItem returns the error for a prompt or a resource that could not be had: the text of
// [outcome.CallError.Message], and as data what a failed call has in _meta["dev.portcullis/upstream"].
func FailedItem(server string, kind tool.Kind, e *outcome.CallError) *mcp.Error {
	said := *e
	said.Item = kind.String()
	data, err := rawjson.Encode(detailsOf(server, &said))
	if err != nil {
		return &mcp.Error{Code: mcp.CodeInternal, Message: "internal error", Err: err}
	}
	return &mcp.Error{Code: mcp.CodeUpstream, Message: said.Message(server), Data: data, Err: e}
}

// complete answers completion/complete, which goes to the server of what is completed.
func (s *Session) complete(ctx context.Context, r mcp.Request) (json.RawMessage, error) {
	s.event.Asked(r.Rest.Get("argument"))
	i, err := s.referred(r)
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

// referred returns the number of the prompt, the template or the resource that a completion is about.
func (s *Session) referred(r mcp.Request) (int, error) {
	if r.Name != "" {
		if i, ok := s.findDirect(tool.Prompt, r.Name); ok {
			return i, nil
		}
		return 0, s.unknownPrompt(r.Name)
	}
	var listed []int
	for _, server := range s.view.Servers() {
		if i, ok := s.view.Find(tool.ID{Server: server.Config.Name, Name: r.URI, Kind: tool.Resource}); ok && s.sel.Resources.Has(i) {
			listed = append(listed, i)
		}
	}
	switch len(listed) {
	case 0:
		return 0, s.unknownURI(r.URI)
	case 1:
		return listed[0], nil
	}
	return 0, s.claimedTwice(r.URI, listed)
}
