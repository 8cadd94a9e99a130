package decide

import (
	"context"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
)

// A Grant is what a person allowed one agent to call, or one confirmed call.
type Grant struct {
	Request string          `json:"request" doc:"id of the request; the verdict revoked ends the grant"`
	Tool    string          `json:"tool" doc:"id of the item"`
	Verdict request.Verdict `json:"verdict" enum:"allowed,confirmed"`
	Ends    time.Time       `json:"ends"`
	Paused  string          `json:"paused,omitempty" doc:"why the agent cannot use the grant now; the agent can use it again when this reason no longer applies"`
}

// GrantsOf returns the grants of an agent that have not ended, oldest first.
func (d *Service) GrantsOf(ctx context.Context, agent request.Agent) (grants []Grant, err error) {
	if d.o.Requests == nil {
		return nil, nil
	}
	all, err := d.requestsOf(ctx, agent.Key())
	if err != nil {
		return nil, err
	}
	m, err := d.instant(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b agentRequest) int { return older(a.Request, b.Request) })
	for _, one := range all {
		r := d.viewRequest(ctx, m, one, m.recordOf(one.Item())).request()
		if r.Grants {
			id, d := r.Item().String(), r.Decided
			grants = append(grants, Grant{r.ID, id, d.Verdict, d.Ends, r.EndedBy})
		}
	}
	return grants, nil
}

// TokenGrants are the grants of the agent of a token. They belong to the token's name, so another
// token of this name has them too.
type TokenGrants struct {
	Granted []Grant `json:"granted" nullable:"false" doc:"grants that have not ended; they apply to every token of this name, including later tokens"`
	Unread  bool    `json:"granted_unread,omitempty" doc:"the grants cannot be read; the gateway's log says why"`
}

// TokenGrants returns the grants to the agent of the tokens with a name.
func (d *Service) TokenGrants(ctx context.Context, name string) TokenGrants {
	agent := request.Agent{Way: identity.WayToken, ID: identity.TokenAgent(name)}
	list, err := d.GrantsOf(ctx, agent)
	if err != nil {
		_ = d.Explain(ctx, "grants of a token", err) // Explain logs the error
	}
	return TokenGrants{append([]Grant{}, list...), err != nil}
}

// grants reports whether the grant of a decision is usable now, or will be when the item has its
// earlier state again. A grant ends permanently when its time ends, when its confirmed call was
// made, or when somebody stops the agent or decides about the item.
func (s requestView) grants(d request.Decision) bool {
	switch {
	case d.Verdict != request.Allowed && d.Verdict != request.Confirmed:
		return false
	case !s.m.now.Before(d.Ends), !s.one.used.IsZero():
		return false
	case !d.At.After(s.m.stops.Last(d.Server, s.one.agent.ID)):
		return false
	}
	return s.record == nil || s.record.DecidedAt.Equal(d.Against)
}
