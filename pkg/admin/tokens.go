package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portcullis-mcp/portcullis/pkg/decide"
	"github.com/portcullis-mcp/portcullis/pkg/token"
)

// An AgentToken is what people see of an agent token: all but its text, which is not kept.
type AgentToken struct {
	ID        string    `json:"id" doc:"names the token here; it lets nobody in"`
	Name      string    `json:"name" doc:"the agent is token:<name> in rules, logs and the audit"`
	Status    string    `json:"status" enum:"live,expired,revoked"`
	Servers   []string  `json:"servers" nullable:"false" doc:"that it may see; * stands for every server"`
	Tiers     []string  `json:"tiers" nullable:"false" doc:"that it may call"`
	Toolsets  []string  `json:"toolsets,omitempty" doc:"that bound its selection; none: no bound"`
	Admin     bool      `json:"admin" doc:"it may use this API"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
	ExpiresAt time.Time `json:"expires_at"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
	RevokedBy string    `json:"revoked_by,omitempty"`
	LastUsed  time.Time `json:"last_used,omitzero" doc:"to the hour"`
}

// registerTokens adds the operations on agent tokens, if they are kept here.
func (a *api) registerTokens(h huma.API) {
	if a.tokens == nil {
		return
	}
	serve(a, h, huma.Operation{
		OperationID: "list-tokens", Method: http.MethodGet, Path: "/admin/tokens",
		Summary: "Agent tokens, also those that are over, by id",
	}, a.listTokens)
	serve(a, h, huma.Operation{
		OperationID: "make-token", Method: http.MethodPost, Path: "/admin/tokens", DefaultStatus: http.StatusCreated,
		Summary: "Make an agent token; the answer is the one place that shows its text", Errors: []int{http.StatusUnprocessableEntity},
	}, a.makeToken)
	serve(a, h, huma.Operation{
		OperationID: "revoke-token", Method: http.MethodPost, Path: "/admin/tokens/{id}/revoke",
		Summary: "End an agent token; the next request that bears it is refused", Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, a.revokeToken)
}

type tokensOutputBody struct {
	Tokens []AgentToken `json:"tokens" nullable:"false"`
	decide.Next
}

func (a *api) listTokens(ctx context.Context, in *decide.Paging) (out tokensOutputBody, err error) {
	all, err := a.tokens.Store.Tokens(ctx)
	if err != nil {
		return out, err
	}
	page, next, err := decide.Cut(*in, "tokens", all, func(t token.Token) string { return t.ID })
	out.Tokens, out.Next = make([]AgentToken, len(page)), next
	for n, t := range page {
		out.Tokens[n] = a.showToken(t)
	}
	return out, err
}

type makeTokenInput struct {
	Body struct {
		Name     string   `json:"name" minLength:"1" maxLength:"64" pattern:"^[A-Za-z0-9._@-]+$"`
		Servers  []string `json:"servers" nullable:"false" maxItems:"200" doc:"* stands for every server; none: it sees nothing"`
		Tiers    []string `json:"tiers" nullable:"false" maxItems:"3" enum:"read,write,destructive" doc:"each stands for itself alone; none: it calls nothing"`
		Toolsets []string `json:"toolsets,omitempty" nullable:"false" maxItems:"200" doc:"none: no bound"`
		Admin    bool     `json:"admin,omitempty" doc:"it may use this API"`
		Days     int      `json:"days" minimum:"1" maximum:"365" doc:"after which it expires"`
	}
}

type makeTokenOutputBody struct {
	AgentToken
	Token string `json:"token" doc:"the text, shown now and never again"`
}

func (a *api) makeToken(ctx context.Context, in *makeTokenInput) (out makeTokenOutputBody, err error) {
	b := in.Body
	t, text, err := a.tokens.Make(ctx, decide.ActorOf(ctx).Name, token.Wish{Name: b.Name, Servers: b.Servers, Tiers: b.Tiers, Toolsets: b.Toolsets, Admin: b.Admin, Days: b.Days})
	if fault, ok := errors.AsType[token.FaultError](err); ok {
		return out, problem(http.StatusUnprocessableEntity, fault.Error())
	}
	if err != nil {
		return out, err
	}
	return makeTokenOutputBody{a.showToken(t), text.Reveal()}, nil
}

type tokenInput struct {
	ID string `path:"id" maxLength:"64"`
}

func (a *api) revokeToken(ctx context.Context, in *tokenInput) (out AgentToken, err error) {
	t, err := a.tokens.Revoke(ctx, decide.ActorOf(ctx).Name, in.ID)
	switch {
	case errors.Is(err, token.ErrNotFound):
		return out, problem(http.StatusNotFound, "there is no token of this id")
	case errors.Is(err, token.ErrConflict):
		return out, problem(http.StatusConflict, "somebody else changed the token at this moment; list the tokens again")
	case err != nil:
		return out, err
	}
	return a.showToken(t), nil
}

func (a *api) showToken(t token.Token) AgentToken {
	return AgentToken{
		ID: t.ID, Name: t.Name, Status: a.tokens.Status(t), Servers: append([]string{}, t.Servers...), Tiers: append([]string{}, t.Tiers...), Toolsets: t.Toolsets, Admin: t.Admin,
		CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy, ExpiresAt: t.ExpiresAt,
		RevokedAt: t.RevokedAt, RevokedBy: t.RevokedBy, LastUsed: t.LastUsed,
	}
}
