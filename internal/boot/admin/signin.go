package bootadmin

import (
	"errors"
	"net/http"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/people/console"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// Browsers holds what people with a browser need. With the zero Browsers nobody can sign in.
type Browsers struct {
	Config decide.ConfigFile // nil: nobody can write the config
	Store  *signin.Store     // of browser sessions; nil: nobody signs in
	// the codes of links that sign in the owner of a gateway on one machine; nil: no links
	Codes *signin.Codes
}

// signIn returns how people sign in, or nil if nobody can. Nobody can sign in if the gateway
// accepts no secret that people can type (JWTs and signatures are none), and has no client at an
// issuer.
func (b Browsers) signIn(p *boot.Program, admins identity.Authenticator) (*console.SignIn, error) {
	a := p.Settings.Access
	out := &console.SignIn{
		Check:     func(r *http.Request, text secret.Text) (signin.Person, error) { return check(p, admins, r, text) },
		Bootstrap: a.Bootstrap != "", Rights: rights(a.JWT.Claims.Roles),
	}
	o := &signin.SessionOptions{Bootstrap: a.Bootstrap, Log: p.Log}
	if a.ClientID != "" {
		o.Client = a.JWT.Issuer + " " + a.ClientID
	}
	// The key hashes the cookies of sessions. A cookie has 256 random bits, so its hash is safe
	// with any key. The key has another purpose: if it changes, all sessions end.
	//
	// A session made from an agent token ends with that token, because each request looks up the
	// token. So with agent tokens the key is not secret, and does not change when the tokens' key
	// is replaced. Without agent tokens the key is the secret that opens /admin. If this secret is
	// the bootstrap token, the key is its digest in the setting, so a new bootstrap token ends the
	// sessions. If people sign in only at the issuer, the key is the issuer and the client ID.
	var key token.Key
	var err error
	switch {
	case b.Store == nil:
		return nil, nil //nolint:nilnil // a gateway without sign-in is valid
	case p.Tokens != nil:
		key, err = token.NewKey(token.DigestOf("sessions of agent tokens"))
		o.Tokens, out.Token = p.Tokens.Store, true
	case p.Owner != nil && a.Open():
		key, err = token.NewKey(p.Owner.Key.Reveal())
		out.Codes, out.Owner = b.Codes, p.Owner.Name
	case a.Open() && a.Bootstrap != "":
		key, err = token.NewKey(a.Bootstrap)
	case a.ClientID != "":
		key, err = token.NewKey(token.DigestOf(o.Client))
	default:
		return nil, nil //nolint:nilnil // as above
	}
	if err == nil && a.ClientID != "" {
		out.Issuer, err = client(p)
	}
	out.Sessions = signin.NewSessions(b.Store, key, o)
	return out, err
}

// client returns the gateway as the client of the issuer at which people sign in.
func client(p *boot.Program) (*signin.Issuer, error) {
	if p.Sealer == nil {
		return nil, errors.New("PORTCULLIS_ADMIN_CLIENT_ID is set, but PORTCULLIS_SEAL_KEY is not: " +
			"it seals the state that a browser keeps during the sign-in at the issuer")
	}
	provider, err := p.Provider()
	if err != nil {
		return nil, err
	}
	a := p.Settings.Access
	o := signin.IssuerOptions{Provider: provider, ID: a.ClientID, Redirect: console.Callback(p.Settings.AdminURL), Claims: a.JWT.Claims, Sealer: p.Sealer}
	if a.ClientSecret.Reveal() != "" {
		o.Secret = p.ClientSecret
	}
	return signin.NewIssuer(o), nil
}

// rights returns the rights of a signed-in person. The settings map the groups of the issuer to
// roles. A person who signs in another way has the rights of an operator.
func rights(roles identity.Roles) func(signin.Session) identity.Rights {
	return func(s signin.Session) identity.Rights {
		if s.Way == signin.WayOIDC {
			return roles.RightsOf(s.Groups)
		}
		return identity.Everything()
	}
}

// check returns the person to whom a typed secret belongs. It checks the secret as if a program had
// sent it, so failures in browsers and failures of programs count together against the address.
func check(p *boot.Program, admins identity.Authenticator, r *http.Request, text secret.Text) (signin.Person, error) {
	agentToken, ok := token.Read(text.Reveal())
	// a valid JWT is not enough: the gateway cannot look it up again later
	if !ok && !p.Settings.Access.Open() {
		return signin.Person{}, &identity.Error{Kind: identity.Invalid, Err: errors.New("not the text of an agent token")}
	}
	asked := r.Clone(r.Context())
	asked.Header = http.Header{"Authorization": {"Bearer " + text.Reveal()}, "X-Forwarded-For": r.Header["X-Forwarded-For"]}
	agent, err := admins.Authenticate(asked)
	who := signin.Person{Actor: agent.ID, Way: signin.WayKey}
	switch {
	case err != nil:
		return signin.Person{}, err
	case token.SameHash(p.Settings.Access.Bootstrap, token.Digest(text)):
		who.Way = signin.WayBootstrap
	case p.Tokens != nil:
		who.Way = signin.WayToken
		t, err := p.Tokens.Find(r.Context(), agentToken)
		if err != nil {
			return signin.Person{}, err
		}
		who.Token = t.ID
	}
	return who, nil
}
