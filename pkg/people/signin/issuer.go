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

// Life limits the time of a sign-in.
const Life = 10 * time.Minute

// MaxCarry limits the bytes of data that a sign-in carries, so that a cookie can hold them.
const MaxCarry = 4 << 10

const askTime = 5 * time.Second // how long the issuer may take to exchange a code

// IssuerOptions configure an [Issuer]. All except Secret, HTTP and Now are required.
type IssuerOptions struct {
	Provider *identity.Provider
	ID       string                                     // of the client
	Secret   func(context.Context) (secret.Text, error) // nil: it is a public client
	Redirect string                                     // address to which browsers return
	Claims   identity.ClaimMap                          // which claim lists groups, and which groups have a role
	Sealer   *seal.Sealer

	HTTP *http.Client     // nil: http.DefaultTransport
	Now  func() time.Time // nil: time.Now
}

// An Issuer is the gateway's client of the OpenID Connect issuer. It is safe for concurrent use.
type Issuer struct{ o IssuerOptions }

// NewIssuer returns a client. It makes no call.
func NewIssuer(o IssuerOptions) *Issuer {
	if o.HTTP == nil {
		o.HTTP = &http.Client{}
	}
	direct := *o.HTTP
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // a redirect would send code and secret to another server
	o.HTTP = &direct
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Issuer{o}
}

// Host returns the issuer's host, which people recognize.
func (c *Issuer) Host() string { return c.o.Provider.Host() }

// Claim returns the claim that lists groups.
func (c *Issuer) Claim() string { return c.o.Claims.GroupClaim() }

// A pending sign-in is the content of the browser's sealed cookie while the person is at the
// issuer.
type pending struct {
	State    string    `json:"s"`
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"` // of the code challenge
	Began    time.Time `json:"t"`
}

// Begin begins a sign-in with data to carry. It returns the address at the issuer for the browser,
// and the sealed value of the cookie that the browser keeps meanwhile. An error is an [*Error].
func (c *Issuer) Begin(ctx context.Context, carry []byte) (to, cookie string, err error) {
	m, err := c.metadata(ctx)
	if err != nil {
		return "", "", err
	}
	p := pending{State: token.Random(), Nonce: token.Random(), Verifier: oauth2.GenerateVerifier(), Began: c.o.Now().UTC()}
	plain, err := json.Marshal(p)
	if err != nil {
		return "", "", &Error{Err: err}
	}
	cookie, err = c.o.Sealer.Seal(ctx, seal.Login, append(append(plain, '\n'), carry...))
	if err != nil {
		return "", "", &Error{Reason: NoKey, Err: err}
	}
	conf := c.config(m, "")
	return conf.AuthCodeURL(p.State, oidc.Nonce(p.Nonce), oauth2.S256ChallengeOption(p.Verifier)), cookie, nil
}

// metadata returns the issuer's metadata. It fails if the metadata has no valid sign-in endpoint.
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

// config returns the client's configuration for the oauth2 library.
func (c *Issuer) config(m identity.Metadata, password string) oauth2.Config {
	style := oauth2.AuthStyleInParams // a public client sends only its id
	if password != "" && (m.TokenAuth == nil || slices.Contains(m.TokenAuth, "client_secret_basic")) {
		style = oauth2.AuthStyleInHeader
	}
	scopes := []string{oidc.ScopeOpenID}
	for _, scope := range []string{"profile", "email", "groups"} {
		if slices.Contains(m.Scopes, scope) || m.Scopes == nil && scope != "groups" { // not every issuer supports groups
			scopes = append(scopes, scope)
		}
	}
	return oauth2.Config{
		ClientID: c.o.ID, ClientSecret: password, RedirectURL: c.o.Redirect, Scopes: scopes,
		Endpoint: oauth2.Endpoint{AuthURL: m.Authorization, TokenURL: m.Token, AuthStyle: style},
	}
}

// EndSession returns the address at which people sign out of the issuer; "" if it has none or is
// unreachable.
func (c *Issuer) EndSession(ctx context.Context) string {
	m, err := c.o.Provider.Metadata(ctx)
	if err != nil || identity.CheckURL(m.EndSession) != nil {
		return ""
	}
	u, err := url.Parse(m.EndSession)
	if err != nil { // CheckURL refuses such an address
		return ""
	}
	q := u.Query()
	q.Set("client_id", c.o.ID)
	u.RawQuery = q.Encode()
	return u.String()
}

// open returns the sign-in in a cookie, and the carried data.
func (c *Issuer) open(ctx context.Context, cookie string) (p pending, carry []byte, err error) {
	if cookie == "" {
		return p, nil, &Error{Reason: NotBegun}
	}
	plain, err := c.o.Sealer.Open(ctx, seal.Login, cookie)
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
