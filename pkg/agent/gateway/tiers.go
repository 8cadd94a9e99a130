package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// need returns the name of the scope that an agent needs to call items of a tier, or the tier if no
// scope grants it. The refusal's challenge names the same scope.
func (g *Gateway) need(tier tool.Tier) string {
	if scope := g.o.Scope(tier); scope != "" {
		return "the scope " + scope
	}
	return "the tier " + tier.String()
}

// lacks returns the scope or tier that the agent needs to call item i, or "" if the agent has the
// tier.
func (s *Session) lacks(i int) string {
	if tier := s.view.Tier(i); !slices.Contains(s.caller.Agent.Tiers, tier) {
		return s.g.need(tier)
	}
	return ""
}

// tierText says that an agent may not call a tool because of its tier.
func tierText(id tool.ID, tier tool.Tier) string {
	return "This agent may not call " + tier.String() + " tools, and " +
		strconv.Quote(id.String()) + " is one."
}

// lacksText returns a text for an agent that no person's decision can help.
func lacksText(need string) string {
	return "Approval will not help: this agent lacks " + need + "."
}

// unhelpfulText follows [lacksText] in the answer to an access request.
const unhelpfulText = " Nothing was requested. Tell your user and continue without it."

// outOfTier returns the refusal of an item whose tier the agent lacks. The message starts with the
// sentence about, which names the item. If no scope
// grants the tier, the refusal names no scope, because the client's sign-in would end with an
// error.
func (s *Session) outOfTier(tier tool.Tier, about string) *mcp.Error {
	s.event.Decide(audit.Tier, "")
	e := &mcp.Error{
		Code: http.StatusForbidden, Status: http.StatusForbidden,
		Message: about + " It needs " + s.g.need(tier) + ".",
	}
	if s.g.o.Scope(tier) != "" {
		e.Err = &identity.Error{Kind: identity.Scope, Scopes: []string{tier.String()}}
	}
	return e
}

// noteLack records need, the missing scope or tier of an agent, in the agent's open request, so
// that the person who decides sees it. It writes to the store only on a change.
func (s *Session) noteLack(ctx context.Context, open request.Request, need string) {
	if open.ID == "" || open.Lacks == need {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, approvalTime)
	defer cancel()
	change := func(a request.List) (request.List, string, json.RawMessage, error) {
		next, err := a.Change(open.ID, func(r *request.Request) { r.Lacks = need })
		return next, "", nil, err
	}
	agent := request.AgentOf(s.caller.Agent)
	if _, err := request.ChangeList(ctx, s.g.o.Requests, agent, change); err != nil {
		s.logUnread(ctx, "what the agent of a request lacks cannot be noted", err)
	}
}

// noteLackOf finds the agent's open request for the item of wish, and calls [Session.noteLack] for
// that request. Without such a request it does nothing.
func (s *Session) noteLackOf(ctx context.Context, wish request.Request, now lockState, need string) {
	if h, err := s.history(ctx, wish, now); err != nil {
		s.logUnread(ctx, "the requests of an agent cannot be read", err)
	} else {
		s.noteLack(ctx, h.open, need)
	}
}
