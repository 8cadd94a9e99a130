package boot

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/apigw"
	"github.com/portcullis-mcp/portcullis/pkg/identity"
	"github.com/portcullis-mcp/portcullis/pkg/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/token"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
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
	secret := p.Settings.Access.TokenKey.s
	if ref, ok := reference(secret); ok {
		secrets := p.secrets
		if secrets == nil {
			secrets = upstream.EnvSecrets{}
		}
		var err error
		if secret, err = secrets.Secret(ctx, ref); err != nil {
			return token.Key{}, fmt.Errorf("PORTCULLIS_TOKEN_KEY: %w", err)
		}
	}
	return token.NewKey(secret)
}

// Actor returns who sends a request to /admin: an agent that may use it. Where everybody
// is let in the audit names nobody in particular.
func (p *Program) Actor(ctx context.Context) (Actor, error) {
	auth, err := p.authenticator(ctx)
	if err != nil {
		return nil, err
	}
	admins := identity.Admins(auth)
	return func(r *http.Request) (string, error) {
		agent, err := admins.Authenticate(r)
		return agent.ID, err
	}, nil
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
