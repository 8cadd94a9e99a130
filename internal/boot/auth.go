package boot

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/admin"
	"github.com/portcullis-mcp/portcullis/pkg/apigw"
	"github.com/portcullis-mcp/portcullis/pkg/identity"
	"github.com/portcullis-mcp/portcullis/pkg/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/secret"
	"github.com/portcullis-mcp/portcullis/pkg/token"
)

// authenticator returns how callers are told apart. All of a program's handlers share
// one: failed attempts count together, and the issuer's keys are kept once.
func (p *Program) authenticator(ctx context.Context) (identity.Authenticator, error) {
	p.authOnce.Do(func() { p.auth, p.authErr = p.newAuthenticator(ctx) })
	return p.auth, p.authErr
}

func (p *Program) newAuthenticator(ctx context.Context) (identity.Authenticator, error) {
	a := p.Settings.Access
	if a.Open() {
		return identity.None{}, nil
	}
	o := identity.Options{TrustedProxies: a.TrustedProxies, Now: p.now}
	if a.takes(identity.WayJWT) {
		settings := a.JWT
		settings.Now = p.now
		j, err := identity.NewJWT(settings)
		if err != nil {
			return nil, err
		}
		o.JWT = j
	}
	if a.takes(identity.WayToken) {
		key, err := p.tokenKey(ctx)
		if err != nil {
			return nil, err
		}
		if p.Stores.Tokens == nil {
			return nil, errors.New("there is no store for agent tokens")
		}
		p.tokens = &identity.Tokens{Store: p.Stores.Tokens, Key: key, Bootstrap: a.Bootstrap, Now: p.now, Log: p.Log}
		o.Tokens = p.tokens
	}
	if a.takes(identity.WayIAM) {
		o.IAM = &identity.IAM{Signer: apigw.Signer, Servers: a.IAMServers, Tiers: a.IAMTiers, Admins: a.IAMAdmins}
	}
	return identity.New(o)
}

// tokenKey returns the key of the agent tokens' hashes, from where the setting says.
func (p *Program) tokenKey(ctx context.Context) (token.Key, error) {
	key := p.Settings.Access.TokenKey.Reveal()
	if ref, ok := secret.Reference(key); ok {
		var err error
		if key, err = p.secrets.Secret(ctx, ref); err != nil {
			return token.Key{}, fmt.Errorf("PORTCULLIS_TOKEN_KEY: %w", err)
		}
	}
	return token.NewKey(key)
}

// Actor returns who sends a request to /admin: an agent that may use it. Where every agent
// is let in, that takes a key which agents are not given.
func (p *Program) Actor(ctx context.Context) (Actor, error) {
	auth, err := p.authenticator(ctx)
	if err != nil {
		return nil, err
	}
	if p.Settings.Access.Open() {
		auth = p.keyholders()
	}
	admins := identity.Admins(auth)
	return func(r *http.Request) (string, error) {
		agent, err := admins.Authenticate(r)
		return agent.ID, err
	}, nil
}

// keyholders take the bearer of one of several keys.
type keyholders []identity.AdminKey

func (k keyholders) Authenticate(r *http.Request) (agent identity.Agent, err error) {
	for _, key := range k {
		if agent, err = key.Authenticate(r); err == nil {
			break
		}
	}
	return agent, err
}

// keyholders returns who may use /admin where every agent is let in: who bears the
// bootstrap token, which may be nobody, and on one machine who bears the key of its folder.
func (p *Program) keyholders() keyholders {
	k := keyholders{{Digest: p.Settings.Access.Bootstrap, ID: identity.BootstrapAgent}}
	if p.owner != nil {
		k = append(k, identity.AdminKey{Digest: token.Digest(p.owner.Key), ID: p.owner.Name})
	}
	return k
}

// AdminShut says why nobody at all is let in at /admin, and how that is changed; "": somebody is.
func (p *Program) AdminShut() string { return p.challenge().Shut }

// challenge is what a caller is told who may not use /admin.
func (p *Program) challenge() admin.Challenge {
	a := p.Settings.Access
	switch {
	case p.owner != nil && a.Open():
		return admin.Challenge{Send: "the admin key, which is in admin.key in the gateway's folder, as Authorization: Bearer; or sign in with a browser at /admin/login"}
	case a.Open() && a.Bootstrap != "":
		return admin.Challenge{Send: "the token whose SHA-256 the setting PORTCULLIS_BOOTSTRAP_SHA256 holds, as Authorization: Bearer"}
	case a.Open():
		return admin.Challenge{Shut: "/admin is shut: PORTCULLIS_AUTH=none tells nobody from anybody, so an agent could approve its own tools. " +
			"The operator opens it by setting PORTCULLIS_BOOTSTRAP_SHA256 (parameter BootstrapSha256) to the SHA-256 of a token, or by another PORTCULLIS_AUTH (parameter AuthMode)"}
	}
	var ways []string
	c := admin.Challenge{ScopePrefix: a.ScopeRequest + a.JWT.Claims.ScopePrefix}
	if a.takes(identity.WayJWT) {
		ways = append(ways, "an access token of "+a.JWT.Issuer+" whose holder is an admin")
		c.Metadata = p.Settings.BaseURL + "/.well-known/oauth-protected-resource/mcp"
	}
	if a.takes(identity.WayToken) {
		ways = append(ways, `an agent token that was made with "admin": true`)
	}
	if a.takes(identity.WayIAM) {
		ways = append(ways, "a request signed by one of PORTCULLIS_IAM_ADMINS")
	}
	c.Send = strings.Join(ways, ", or ")
	return c
}

// resource is what clients are told of where to get a token; nil if no token of an
// issuer is taken.
func (s Settings) resource() *mcphttp.Resource {
	if !s.Access.takes(identity.WayJWT) {
		return nil
	}
	prefix := s.Access.ScopeRequest + s.Access.JWT.Claims.ScopePrefix
	return &mcphttp.Resource{
		AuthorizationServers: []string{s.Access.JWT.Issuer},
		Scopes:               []string{prefix + "read", prefix + "write", prefix + "destructive"},
		ScopePrefix:          prefix,
	}
}
