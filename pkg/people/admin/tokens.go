package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// An AgentToken is an agent token as people see it: without its text, which is not stored.
type AgentToken struct {
	ID        string    `json:"id" doc:"identifies the token in this API; nobody can authenticate with it"`
	Name      string    `json:"name" doc:"the agent is token:<name> in rules, logs and the audit"`
	Status    string    `json:"status" enum:"live,expired,revoked,void" doc:"void: the token has not expired, but the key of its hash is gone, so the gateway refuses it"`
	Key       string    `json:"key,omitempty" enum:"current,previous,gone" doc:"key of the gateway with which the token's hash was made: the gateway refuses the token when this key is gone; absent if the keys cannot be read"`
	Servers   []string  `json:"servers" nullable:"false" doc:"servers that the token may see; * means every server"`
	Tiers     []string  `json:"tiers" nullable:"false" doc:"tiers that the token may call"`
	Toolsets  []string  `json:"toolsets,omitempty" doc:"toolsets that limit the token's selection; absent: no limit"`
	Admin     bool      `json:"admin" doc:"the token may use this API"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
	ExpiresAt time.Time `json:"expires_at"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
	RevokedBy string    `json:"revoked_by,omitempty"`
	LastUsed  time.Time `json:"last_used,omitzero" doc:"time of the last use, accurate to the hour"`
}

// TokenKeys are the keys of the hashes of agent tokens.
type TokenKeys struct {
	Current  TokenKey  `json:"current"`
	Previous *TokenKey `json:"previous,omitempty" doc:"key before the current one; absent if the gateway accepts no token under it"`
	Void     int       `json:"void" doc:"number of tokens that have not expired, but are refused because their key is gone"`
}

// A TokenKey describes a key without its secret.
type TokenKey struct {
	ID    string    `json:"id" doc:"identifies the key; it is not secret"`
	Since time.Time `json:"since,omitzero" doc:"when the operator set the key; absent if that is not known"`
	Until time.Time `json:"until,omitzero" doc:"time after which the gateway accepts no token under the key; absent: until the key is removed"`
	Live  int       `json:"live" doc:"number of valid tokens under the key"`
	Last  time.Time `json:"last_expires,omitzero" doc:"when the last of the valid tokens under the key expires"`
}

// registerTokens adds the operations on agent tokens, if this gateway stores agent tokens.
func (a *api) registerTokens(h huma.API) {
	if a.tokens == nil {
		return
	}
	serve(a, h, huma.Operation{
		OperationID: "list-tokens", Method: http.MethodGet, Path: "/admin/tokens",
		Summary: "List agent tokens, including expired and revoked ones, by id",
	}, a.listTokens)
	serve(a, h, huma.Operation{
		OperationID: "make-token", Method: http.MethodPost, Path: "/admin/tokens", DefaultStatus: http.StatusCreated,
		Summary: "Make an agent token; only this answer has its text", Errors: []int{http.StatusUnprocessableEntity},
	}, a.makeToken)
	serve(a, h, huma.Operation{
		OperationID: "revoke-token", Method: http.MethodPost, Path: "/admin/tokens/{id}/revoke",
		Summary: "Revoke an agent token; its next request is refused. " +
			"Grants to the name of the token remain, and the answer lists them",
		Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, a.revokeToken)
}

// A TokenList is a page of agent tokens.
type TokenList struct {
	Tokens []AgentToken `json:"tokens" nullable:"false"`
	Keys   *TokenKeys   `json:"keys,omitempty" doc:"keys of the hashes of all tokens; absent if the keys cannot be read"`
	decide.Next
}

func (a *api) listTokens(ctx context.Context, in *decide.Paging) (out TokenList, err error) {
	all, err := a.tokens.Store.Tokens(ctx)
	if err != nil {
		return out, err
	}
	judge := a.tokens.StatusAt(ctx)
	if s, ok := judge.KeySummary(all); ok {
		out.Keys = &TokenKeys{Current: TokenKey(s.Current), Void: s.Void}
		if s.Previous.ID != "" {
			previous := TokenKey(s.Previous)
			out.Keys.Previous = &previous
		}
	}
	page, next, err := decide.Cut(*in, "tokens", all, func(t token.Token) string { return t.ID })
	out.Tokens, out.Next = make([]AgentToken, len(page)), next
	for n, t := range page {
		out.Tokens[n] = showToken(t, judge)
	}
	return out, err
}

type makeTokenInput struct {
	Body struct {
		Name     string   `json:"name" minLength:"1" maxLength:"64" pattern:"^[A-Za-z0-9._@-]+$"`
		Servers  []string `json:"servers" nullable:"false" maxItems:"200" doc:"* means every server; empty: the token sees nothing"`
		Tiers    []string `json:"tiers" nullable:"false" maxItems:"3" enum:"read,write,destructive" doc:"write does not include read; empty: the token can call nothing"`
		Toolsets []string `json:"toolsets,omitempty" nullable:"false" maxItems:"200" doc:"empty: no limit"`
		Admin    bool     `json:"admin,omitempty" doc:"the token may use this API"`
		Days     int      `json:"days" minimum:"1" maximum:"365" doc:"days until the token expires"`
	}
}

// A MadeToken is a new token with its text.
type MadeToken struct {
	AgentToken
	Token string `json:"token" doc:"the text, shown now and never again"`
}

func (a *api) makeToken(ctx context.Context, in *makeTokenInput) (out MadeToken, err error) {
	t, text, err := a.tokens.Make(ctx, decide.ActorOf(ctx).Name, token.Spec(in.Body))
	if fault, ok := errors.AsType[token.FaultError](err); ok {
		return out, problem(http.StatusUnprocessableEntity, fault.Error())
	}
	if err != nil {
		return out, err
	}
	return MadeToken{showToken(t, a.tokens.StatusAt(ctx)), text.Reveal()}, nil
}

type tokenInput struct {
	ID string `path:"id" maxLength:"64"`
}

// A RevokedToken is a revoked token with the grants to its name.
type RevokedToken struct {
	AgentToken
	decide.TokenGrants
}

func (a *api) revokeToken(ctx context.Context, in *tokenInput) (out RevokedToken, err error) {
	t, err := a.tokens.Revoke(ctx, decide.ActorOf(ctx).Name, in.ID)
	switch {
	case errors.Is(err, token.ErrNotFound):
		return out, problem(http.StatusNotFound, "no token has this id")
	case errors.Is(err, token.ErrConflict):
		return out, problem(http.StatusConflict, "somebody else has just changed the token; list the tokens again")
	case err != nil:
		return out, err
	}
	out = RevokedToken{showToken(t, a.tokens.StatusAt(ctx)), a.service.TokenGrants(ctx, t.Name)}
	return out, nil
}

func showToken(t token.Token, j token.StatusView) AgentToken {
	return AgentToken{
		ID: t.ID, Name: t.Name, Status: j.Status(t), Key: string(j.KeyStatus(t)), Servers: append([]string{}, t.Servers...), Tiers: append([]string{}, t.Tiers...), Toolsets: t.Toolsets, Admin: t.Admin,
		CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy, ExpiresAt: t.ExpiresAt,
		RevokedAt: t.RevokedAt, RevokedBy: t.RevokedBy, LastUsed: t.LastUsed,
	}
}
