package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// JWTOptions name the one issuer whose tokens are taken, and for whom.
type JWTOptions struct {
	Issuer     string           // as it stands in iss; required
	Audiences  []string         // one of which must stand in aud; required
	BaseURL    string           // of the gateway; audiences that are addresses under it count on their own paths; "": none is
	Algorithms []string         // asymmetric ones; nil: RS256, ES256
	KeysURL    string           // of the issuer's key set; "": found by discovery
	Claims     ClaimMap         // what a token grants
	Client     *http.Client     // nil: one with a timeout
	Now        func() time.Time // nil: time.Now
}

// A JWT takes access tokens that the issuer signed. Signature, issuer, audience and expiry
// are checked of each; there is no way to leave one out.
type JWT struct {
	o         JWTOptions
	audiences []audience
	verifier  *oidc.IDTokenVerifier
}

// asymmetric are the algorithms with a key that may be public. With any other, whoever
// can check a token can make one.
var asymmetric = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// NewJWT reports every fault of the options at once. It makes no call: the issuer is asked
// for its keys when the first token comes.
func NewJWT(o JWTOptions) (*JWT, error) {
	var faults []error
	if err := checkIssuerURL(o.Issuer); err != nil {
		faults = append(faults, fmt.Errorf("issuer: %w", err))
	}
	if len(o.Audiences) == 0 || slices.Contains(o.Audiences, "") {
		faults = append(faults, errors.New("audience: none: a token for anybody would be taken"))
	}
	var audiences []audience
	for _, name := range o.Audiences {
		a, err := readAudience(name, o.BaseURL)
		audiences, faults = append(audiences, a), append(faults, err)
	}
	if o.Algorithms == nil {
		o.Algorithms = []string{oidc.RS256, oidc.ES256}
	}
	for _, alg := range o.Algorithms {
		if !slices.Contains(asymmetric, alg) {
			faults = append(faults, fmt.Errorf("algorithm %q: want one of %v", alg, asymmetric))
		}
	}
	if o.KeysURL != "" {
		if err := checkIssuerURL(o.KeysURL); err != nil {
			faults = append(faults, fmt.Errorf("key set: %w", err))
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Client == nil {
		o.Client = &http.Client{Timeout: fetchTime}
	}
	if len(o.Algorithms) == 0 { // the library would take its own for none
		faults = append(faults, errors.New("algorithm: none"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	keys := &keySet{issuer: o.Issuer, url: o.KeysURL, client: o.Client, now: o.Now}
	for _, alg := range o.Algorithms {
		keys.algorithms = append(keys.algorithms, jose.SignatureAlgorithm(alg))
	}
	return &JWT{o, audiences, oidc.NewVerifier(o.Issuer, keys, &oidc.Config{
		SkipClientIDCheck:    true, // it knows one audience only; check looks at it
		SupportedSigningAlgs: o.Algorithms, Now: o.Now,
	})}, nil
}

// checkIssuerURL wants https, but for an issuer on this machine.
func checkIssuerURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || (u.Scheme != "https" && u.Scheme != "http") {
		return fmt.Errorf("%q is not a URL such as https://login.example.com", s)
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%q is not https: who stands between could sign tokens", s)
	}
	return nil
}

// check reads a token that was sent to a path.
func (j *JWT) check(ctx context.Context, path, credential string) (Agent, error) {
	var unavailable failure
	t, err := j.verifier.Verify(context.WithValue(ctx, failureKey{}, &unavailable), credential)
	if err != nil {
		if unavailable.err != nil {
			return Agent{}, unavailable.err
		}
		return Agent{}, err
	}
	if !admits(j.audiences, t.Audience, path) {
		return Agent{}, errors.New("it is meant for another audience, or for another path")
	}
	var payload json.RawMessage
	if err := t.Claims(&payload); err != nil {
		return Agent{}, err
	}
	claims, err := readClaims(payload)
	if err != nil {
		return Agent{}, err
	}
	return j.o.Claims.Agent(claims)
}
