package identity

import (
	"context"
	"errors"
	"slices"
)

// JWTOptions name the one issuer whose tokens are taken, and for whom.
type JWTOptions struct {
	ProviderOptions

	Audiences []string  // one of which must stand in aud; required
	BaseURL   string    // of the gateway; audiences that are addresses under it count on their own paths; "": none is
	Claims    ClaimMap  // what a token grants
	Provider  *Provider // of this issuer, with whom keys are shared; nil: one of its own
}

// A JWT takes access tokens that the issuer signed. Signature, issuer, audience and expiry
// are checked of each; there is no way to leave one out.
type JWT struct {
	claims    ClaimMap
	audiences []audience
	provider  *Provider
}

// NewJWT reports every fault of the options at once. It makes no call: the issuer is asked
// for its keys when the first token comes.
func NewJWT(o JWTOptions) (*JWT, error) {
	var faults []error
	if o.Provider == nil {
		var err error
		o.Provider, err = NewProvider(o.ProviderOptions)
		faults = append(faults, err)
	}
	if len(o.Audiences) == 0 || slices.Contains(o.Audiences, "") {
		faults = append(faults, errors.New("audience: none: a token for anybody would be taken"))
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

// check reads a token that was sent to a path.
func (j *JWT) check(ctx context.Context, path, credential string) (Agent, error) {
	t, err := j.provider.Verify(ctx, credential)
	if err != nil {
		return Agent{}, err
	}
	if !admits(j.audiences, t.Audience, path) {
		return Agent{}, errors.New("it is meant for another audience, or for another path")
	}
	claims, err := ClaimsOf(t)
	if err != nil {
		return Agent{}, err
	}
	return j.claims.Agent(claims)
}
