package identity

import (
	"context"
	"errors"
	"slices"
)

// JWTOptions name the accepted issuer of tokens, and the accepted audiences.
type JWTOptions struct {
	ProviderOptions

	Audiences []string // aud must contain one of them; required

	// BaseURL is the URL of the gateway. If an audience is the URL of one of its paths, a token for
	// this audience is valid only at and below this path. "": a token is valid at every path.
	BaseURL string

	Claims   ClaimMap  // what a token grants
	Provider *Provider // of this issuer, to share its keys; nil: a new one
}

// A JWT accepts access tokens that the issuer signed. It checks signature, issuer, audience and
// expiry of each; no check can be disabled.
type JWT struct {
	claims    ClaimMap
	audiences []audience
	provider  *Provider
}

// NewJWT reports every fault of the options at once. It makes no call: the first token triggers
// the request for the issuer's keys.
func NewJWT(o JWTOptions) (*JWT, error) {
	var faults []error
	if o.Provider == nil {
		var err error
		o.Provider, err = NewProvider(o.ProviderOptions)
		faults = append(faults, err)
	}
	if len(o.Audiences) == 0 || slices.Contains(o.Audiences, "") {
		faults = append(faults, errors.New("audience: none: the gateway would accept a token for any audience"))
	}
	var audiences []audience
	for _, name := range o.Audiences {
		a, err := readAudience(name, o.BaseURL)
		audiences, faults = append(audiences, a), append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return &JWT{o.Claims, audiences, o.Provider}, nil
}

// check verifies a token that was sent to a path.
func (j *JWT) check(ctx context.Context, path, credential string) (Agent, error) {
	t, err := j.provider.Verify(ctx, credential)
	if err != nil {
		return Agent{}, err
	}
	if !admits(j.audiences, t.Audience, path) {
		return Agent{}, errors.New("the token is for another audience, or for another path")
	}
	claims, err := ClaimsOf(t)
	if err != nil {
		return Agent{}, err
	}
	return j.claims.Agent(claims)
}
