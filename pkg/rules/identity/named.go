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
	a, _ := None{}.Authenticate(nil) // which never fails
	return a
}

// Names says which agents there can be, for people who ask what one of them sees. The zero Names
// knows none.
type Names struct {
	Open   bool         // all callers are one agent
	Tokens *token.Store // of agent tokens; nil: none are taken
	Claims *ClaimMap    // of what makes an agent of a JWT; nil: none is taken
	IAM    *IAM         // what a signer may do; nil: no signature is taken
}

// List returns the agents that are known by name, each once, by id: those of the tokens that are good
// now, and of several of one name that which was made last, to take the place of the others. Anybody whom an issuer or AWS vouches for may be one as well.
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

// Of returns the agent that a JWT with these claims would make; they are JSON.
func (n Names) Of(claims []byte) (Agent, error) {
	if n.Claims == nil {
		return Agent{}, errors.New("this gateway takes no JWT")
	}
	all, err := readClaims(claims)
	if err != nil {
		return Agent{}, err
	}
	return n.Claims.Agent(all)
}

// Signer returns the agent that a signer with this ARN is.
func (n Names) Signer(arn string) (Agent, error) {
	if n.IAM == nil {
		return Agent{}, errors.New("this gateway takes no signature")
	}
	i := *n.IAM
	i.Signer = func(context.Context) string { return arn }
	if a, ok := i.agent(context.Background()); ok {
		return a, nil
	}
	return Agent{}, errors.New("not the ARN of a signer")
}
