package signin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// Life is how long a sign-in may take.
const Life = 10 * time.Minute

// MaxCarry is how many bytes a sign-in carries along, so that cookies can hold it.
const MaxCarry = 4 << 10

const askTime = 5 * time.Second // that the issuer has to trade a code

// IssuerOptions are what an [Issuer] is made of. All but Secret, HTTP and Now must be given.
type IssuerOptions struct {
	Provider *identity.Provider
	ID       string                                     // of the client
	Secret   func(context.Context) (secret.Text, error) // nil: it is a public client
	Redirect string                                     // address at which browsers come back
	Claims   identity.ClaimMap                          // where groups are listed, and which have a role
	Sealer   *seal.Sealer

	HTTP *http.Client     // nil: http.DefaultTransport
	Now  func() time.Time // nil: time.Now
}

// An Issuer is the gateway as a client of the issuer. It is safe for concurrent use.
type Issuer struct{ o IssuerOptions }

// NewIssuer returns a client. It makes no call.
func NewIssuer(o IssuerOptions) *Issuer {
	if o.HTTP == nil {
		o.HTTP = &http.Client{}
	}
	direct := *o.HTTP
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // who is sent on would get code and secret
	o.HTTP = &direct
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Issuer{o}
}

// Host returns the issuer's host, as people know it.
func (c *Issuer) Host() string { return c.o.Provider.Host() }

// Claim returns the claim in which the issuer lists groups.
func (c *Issuer) Claim() string { return c.o.Claims.GroupClaim() }

// A pending sign-in is what a browser keeps while its user is at the issuer.
type pending struct {
	State    string    `json:"s"`
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"` // of the code challenge
	Began    time.Time `json:"t"`
}

// Begin begins a sign-in: it returns the address at the issuer to which the browser goes, and what
// the browser keeps meanwhile, with what is carried along. An error is an [*Error].
func (c *Issuer) Begin(ctx context.Context, carry []byte) (to, kept string, err error) {
	m, err := c.metadata(ctx)
	if err != nil {
		return "", "", err
	}
	p := pending{State: token.Random(), Nonce: token.Random(), Verifier: oauth2.GenerateVerifier(), Began: c.o.Now().UTC()}
	plain, err := json.Marshal(p)
	if err != nil {
		return "", "", &Error{Err: err}
	}
	kept, err = c.o.Sealer.Seal(ctx, seal.Login, append(append(plain, '\n'), carry...))
	if err != nil {
		return "", "", &Error{Reason: NoKey, Err: err}
	}
	conf := c.config(m, "")
	return conf.AuthCodeURL(p.State, oidc.Nonce(p.Nonce), oauth2.S256ChallengeOption(p.Verifier)), kept, nil
}

// metadata returns the issuer's, if it says where people sign in.
func (c *Issuer) metadata(ctx context.Context) (identity.Metadata, error) {
	m, err := c.o.Provider.Metadata(ctx)
	if err != nil {
		return m, &Error{Reason: Unavailable, Err: err}
	}
	if err := errors.Join(identity.CheckURL(m.Authorization), identity.CheckURL(m.Token)); err != nil {
		return m, &Error{Reason: Nonsense, Err: err}
	}
	return m, nil
}

// config is the client as the library has it.
func (c *Issuer) config(m identity.Metadata, password string) oauth2.Config {
	style := oauth2.AuthStyleInParams // a public client says who it is, and proves nothing
	if password != "" && (m.TokenAuth == nil || slices.Contains(m.TokenAuth, "client_secret_basic")) {
		style = oauth2.AuthStyleInHeader
	}
	scopes := []string{oidc.ScopeOpenID}
	for _, scope := range []string{"profile", "email", "groups"} {
		if slices.Contains(m.Scopes, scope) || m.Scopes == nil && scope != "groups" { // which not every issuer knows
			scopes = append(scopes, scope)
		}
	}
	return oauth2.Config{
		ClientID: c.o.ID, ClientSecret: password, RedirectURL: c.o.Redirect, Scopes: scopes,
		Endpoint: oauth2.Endpoint{AuthURL: m.Authorization, TokenURL: m.Token, AuthStyle: style},
	}
}

// EndSession returns the address at which people sign out of the issuer; "" if it has none, or does
// not say for now.
func (c *Issuer) EndSession(ctx context.Context) string {
	m, err := c.o.Provider.Metadata(ctx)
	if err != nil || identity.CheckURL(m.EndSession) != nil {
		return ""
	}
	u, err := url.Parse(m.EndSession)
	if err != nil { // which CheckURL refuses
		return ""
	}
	q := u.Query()
	q.Set("client_id", c.o.ID)
	u.RawQuery = q.Encode()
	return u.String()
}

// open returns the sign-in that a browser keeps.
func (c *Issuer) open(ctx context.Context, kept string) (p pending, carry []byte, err error) {
	if kept == "" {
		return p, nil, &Error{Reason: NotBegun}
	}
	plain, err := c.o.Sealer.Open(ctx, seal.Login, kept)
	switch {
	case errors.Is(err, seal.ErrForged):
		return p, nil, &Error{Reason: NotBegun, Err: err}
	case err != nil:
		return p, nil, &Error{Reason: NoKey, Err: err}
	}
	head, carry, _ := bytes.Cut(plain, []byte("\n"))
	if err := json.Unmarshal(head, &p); err != nil {
		return p, nil, &Error{Reason: NotBegun, Err: err}
	}
	if age := c.o.Now().Sub(p.Began); age >= Life || age < -skew {
		return p, carry, &Error{Reason: Late}
	}
	return p, carry, nil
}
