package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/portcullis-mcp/portcullis/pkg/base/hostname"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// ProviderOptions describe an issuer.
type ProviderOptions struct {
	Issuer     string           // as in iss; required
	Algorithms []string         // asymmetric ones; nil: RS256, ES256
	KeysURL    string           // of its key set; "": use discovery
	Client     *http.Client     // nil: one with a timeout
	Now        func() time.Time // nil: time.Now
}

// A Provider is an issuer of tokens (an OpenID provider). It fetches the issuer's metadata and keys
// when they are first needed, and caches them. Everything that checks tokens of the issuer shares
// one Provider. It is safe for concurrent use.
type Provider struct {
	o        ProviderOptions
	verifier *oidc.IDTokenVerifier

	finding sync.Mutex // locked while the metadata is fetched
	found   Metadata
	read    time.Time // time of the last successful fetch; zero: never
	tried   time.Time // time of the last fetch
	err     error     // result of the last fetch
}

// Metadata is an issuer's description of itself (OpenID Connect Discovery 1.0, RFC 8414).
type Metadata struct {
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	EndSession    string   `json:"end_session_endpoint"` // "": none
	Keys          string   `json:"jwks_uri"`
	TokenAuth     []string `json:"token_endpoint_auth_methods_supported"`
	Scopes        []string `json:"scopes_supported"`
	NamesItself   bool     `json:"authorization_response_iss_parameter_supported"` // each authorization response has the issuer (RFC 9207)
}

// asymmetric are the algorithms with a public key. With any other algorithm, a program that can
// check a token can also make one.
var asymmetric = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// NewProvider reports every fault of the options at once. It makes no call.
func NewProvider(o ProviderOptions) (*Provider, error) {
	var faults []error
	if err := CheckURL(o.Issuer); err != nil {
		faults = append(faults, fmt.Errorf("issuer: %w", err))
	}
	if o.Algorithms == nil {
		o.Algorithms = []string{oidc.RS256, oidc.ES256}
	}
	for _, alg := range o.Algorithms {
		if !slices.Contains(asymmetric, alg) {
			faults = append(faults, fmt.Errorf("algorithm %q: want one of %v", alg, asymmetric))
		}
	}
	if len(o.Algorithms) == 0 { // the library's default would be empty
		faults = append(faults, errors.New("algorithm: none"))
	}
	if o.KeysURL != "" {
		if err := CheckURL(o.KeysURL); err != nil {
			faults = append(faults, fmt.Errorf("key set: %w", err))
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Client == nil {
		o.Client = &http.Client{Timeout: fetchTime}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	p := &Provider{o: o}
	keys := &keySet{url: p.keysURL, client: o.Client, now: o.Now}
	for _, alg := range o.Algorithms {
		keys.algorithms = append(keys.algorithms, jose.SignatureAlgorithm(alg))
	}
	p.verifier = oidc.NewVerifier(o.Issuer, keys, &oidc.Config{
		SkipIssuerCheck:      true, // Verify reports this fault separately
		SkipClientIDCheck:    true, // callers of Verify check any of several audiences
		SupportedSigningAlgs: o.Algorithms, Now: o.Now,
	})
	return p, nil
}

// Issuer returns the issuer as in iss.
func (p *Provider) Issuer() string { return p.o.Issuer }

// Host returns the host of the issuer, for people.
func (p *Provider) Host() string {
	u, err := url.Parse(p.o.Issuer)
	if err != nil { // NewProvider refuses this
		return p.o.Issuer
	}
	return u.Host
}

// CheckURL returns the fault of an issuer's address. It must be https, except for an issuer on
// this machine.
func CheckURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || (u.Scheme != "https" && u.Scheme != "http") {
		return fmt.Errorf("%q is not a URL such as https://login.example.com", s)
	}
	if InClear(u) {
		return fmt.Errorf("%q is not https: an attacker on the network could sign tokens", s)
	}
	return nil
}

// InClear reports whether data to an address crosses a network without encryption.
func InClear(u *url.URL) bool {
	return u.Scheme == "http" && !hostname.IsLoopback(u.Host)
}

// maxLogged is the longest part of an invalid metadata answer that is logged, in characters.
const maxLogged = 300

// ErrOtherIssuer says that a token is valid, but from another issuer.
var ErrOtherIssuer = errors.New("the token is of another issuer")

// Verify returns a token that the issuer signed and that has not expired. The caller has to check
// the audience. The error is an [*Error] if the issuer's keys cannot be fetched.
func (p *Provider) Verify(ctx context.Context, token string) (*oidc.IDToken, error) {
	var unavailable failure
	t, err := p.verifier.Verify(context.WithValue(ctx, failureKey{}, &unavailable), token)
	switch {
	case unavailable.err != nil:
		return nil, unavailable.err
	case err != nil:
		return nil, err
	case t.Issuer != p.o.Issuer:
		return nil, fmt.Errorf("%w: %q", ErrOtherIssuer, t.Issuer)
	}
	return t, nil
}

// Metadata returns the issuer's metadata. It is at most an hour old, or at most a day if the issuer
// does not answer. Without metadata the error is an [*Error].
func (p *Provider) Metadata(ctx context.Context) (Metadata, error) {
	p.finding.Lock()
	defer p.finding.Unlock()
	now := p.o.Now()
	age := now.Sub(p.read)
	if p.read.IsZero() || age >= keysTTL {
		if p.err == nil || now.Sub(p.tried) >= keysAgain {
			p.discover(ctx)
		}
		age = now.Sub(p.read)
	}
	if p.read.IsZero() || age >= keysHold {
		return Metadata{}, &Error{Kind: Unavailable, RetryAfter: keysAgain, Err: fmt.Errorf("metadata of the issuer: %w", p.err)}
	}
	return p.found, nil
}

// discover fetches the metadata. It does not depend on the request that needs it first, whose
// sender may give up: later requests need it, too.
func (p *Provider) discover(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime)
	defer cancel()
	var m Metadata
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, p.o.Client), p.o.Issuer)
	if err == nil {
		err = provider.Claims(&m)
	}
	if err != nil { // the error may quote the whole answer
		err = errors.New(text.Clip(text.Line(err.Error()), maxLogged))
	}
	if p.tried, p.err = p.o.Now(), err; err == nil {
		p.found, p.read = m, p.tried
	}
}

// keysURL returns the address of the key set.
func (p *Provider) keysURL(ctx context.Context) (string, error) {
	if p.o.KeysURL != "" {
		return p.o.KeysURL, nil
	}
	m, err := p.Metadata(ctx)
	if err != nil {
		return "", err
	}
	if err := CheckURL(m.Keys); err != nil {
		return "", fmt.Errorf("jwks_uri: %w", err)
	}
	return m.Keys, nil
}
