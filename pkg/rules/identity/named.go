package identity

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// Anonymous returns the one agent of [None].
func Anonymous() Agent {
	a, _ := None{}.Authenticate(nil) // it never fails
	return a
}

// Names lists the possible agents, so that people can find out what an agent sees. The zero Names
// has none.
type Names struct {
	Open   bool         // all callers are one agent
	Tokens *token.Store // of agent tokens; nil: none are accepted
	Claims *ClaimMap    // maps a JWT to an agent; nil: no JWT is accepted
	IAM    *IAM         // rights of a signer; nil: no signature is accepted
}

// List returns the agents with valid tokens, each once, by id. If several tokens have one name,
// List uses the latest, which replaces the others. The list is not complete, because an issuer or
// AWS can identify other callers.
func (n Names) List(ctx context.Context, now time.Time) (out []Agent, err error) {
	if n.Open {
		out = append(out, Anonymous())
	}
	if n.Tokens == nil {
		return out, nil
	}
	all, err := n.Tokens.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b token.Token) int { return b.CreatedAt.Compare(a.CreatedAt) })
	for _, t := range all {
		if a, err := tokenAgent(t); err == nil && t.Live(now) {
			out = append(out, a)
		}
	}
	slices.SortStableFunc(out, func(a, b Agent) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(out, func(a, b Agent) bool { return a.ID == b.ID }), nil
}

// FromClaims returns the agent of a JWT with these claims, which are JSON.
func (n Names) FromClaims(claims []byte) (Agent, error) {
	if n.Claims == nil {
		return Agent{}, errors.New("this gateway accepts no JWT")
	}
	all, err := readClaims(claims)
	if err != nil {
		return Agent{}, err
	}
	return n.Claims.Agent(all)
}

// Signer returns the agent of a signer with this ARN.
func (n Names) Signer(arn string) (Agent, error) {
	if n.IAM == nil {
		return Agent{}, errors.New("this gateway accepts no signature")
	}
	i := *n.IAM
	i.Signer = func(context.Context) string { return arn }
	if a, ok := i.agent(context.Background()); ok {
		return a, nil
	}
	return Agent{}, errors.New("not the ARN of a signer")
}
