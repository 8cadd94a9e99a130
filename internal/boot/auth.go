package boot

import (
	"context"
	"fmt"

	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/aws/apigw"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Authenticator returns how callers are told apart. All of a program's handlers share
// one: failed attempts count together, and the issuer's keys are kept once.
func (p *Program) Authenticator(ctx context.Context) (identity.Authenticator, error) {
	p.authOnce.Do(func() { p.auth, p.authErr = p.newAuthenticator(ctx, p.Settings.BaseURL) })
	return p.auth, p.authErr
}

// authenticatorAt returns the Authenticator of a gateway at a public address, which tokens of an
// issuer may be made out to.
func (p *Program) authenticatorAt(ctx context.Context, base string) (identity.Authenticator, error) {
	if base == p.Settings.BaseURL {
		return p.Authenticator(ctx)
	}
	return p.newAuthenticator(ctx, base)
}

func (p *Program) newAuthenticator(ctx context.Context, base string) (identity.Authenticator, error) {
	a := p.Settings.Access
	if a.Open() {
		return identity.None{}, nil
	}
	o := identity.Options{Scopes: a.signIn(""), TrustedProxies: a.TrustedProxies, Now: p.now}
	if a.Takes(identity.WayJWT) {
		settings := a.jwtAt(base)
		var err error
		if settings.Provider, err = p.Provider(); err != nil {
			return nil, err
		}
		j, err := identity.NewJWT(settings)
		if err != nil {
			return nil, err
		}
		o.JWT = j
	}
	if a.Takes(identity.WayToken) {
		if err := p.readTokens(ctx); err != nil {
			return nil, err
		}
		o.Tokens = p.Tokens
	}
	if a.Takes(identity.WayIAM) {
		o.IAM = a.iam()
	}
	return identity.New(o)
}

// Names returns which agents there can be. Agent tokens are among them once somebody has asked for
// the [Program.Authenticator].
func (p *Program) Names() (n identity.Names) {
	a := p.Settings.Access
	n.Open = a.Open()
	if p.Tokens != nil {
		n.Tokens = p.Tokens.Store
	}
	if a.Takes(identity.WayJWT) {
		n.Claims = &a.JWT.Claims
	}
	if a.Takes(identity.WayIAM) {
		n.IAM = a.iam()
	}
	return n
}

// iam returns what a signer may do.
func (a Access) iam() *identity.IAM {
	return &identity.IAM{Signer: apigw.Signer, Servers: a.IAMServers, Tiers: a.IAMTiers, Admins: a.IAMAdmins}
}

// Provider returns the issuer whose tokens are taken, or at which people sign in. All who ask share
// its keys.
func (p *Program) Provider() (*identity.Provider, error) {
	p.providerOnce.Do(func() {
		o := p.Settings.Access.JWT.ProviderOptions
		o.Now = p.now
		p.provider, p.providerErr = identity.NewProvider(o)
	})
	return p.provider, p.providerErr
}

// ClientSecret returns that of the gateway at the issuer, from where the setting says.
func (p *Program) ClientSecret(ctx context.Context) (secret.Text, error) {
	text := p.Settings.Access.ClientSecret
	if ref, ok := secret.Reference(text.Reveal()); ok {
		found, err := p.secrets.Secret(ctx, ref)
		if err != nil {
			return secret.Text{}, fmt.Errorf("%s: %w", secretName, err)
		}
		text = secret.New(found)
	}
	return text, nil
}

// resource is what clients are told of where to get a token; nil if no token of an
// issuer is taken.
func (s Settings) resource() *mcphttp.Resource {
	if !s.Access.Takes(identity.WayJWT) {
		return nil
	}
	prefix := s.Access.ScopePrefix()
	return &mcphttp.Resource{
		AuthorizationServers: []string{s.Access.JWT.Issuer},
		Scopes:               s.Access.signIn(prefix),
		ScopePrefix:          prefix,
	}
}

// ScopePrefix is what a client puts before a tier to ask the issuer for its scope.
func (a Access) ScopePrefix() string { return a.ScopeRequest + a.JWT.Claims.ScopePrefix }

// signIn returns the scopes that a client asks for when it signs in.
func (a Access) signIn(prefix string) (out []string) {
	for _, tier := range a.SignInTiers {
		out = append(out, prefix+tier.String())
	}
	return out
}

// scope returns the scope that a call of the tier needs; "": no scope of the issuer helps.
func (a Access) scope(tier tool.Tier) string {
	if a.Takes(identity.WayJWT) && a.SignInTiers == nil {
		return ""
	}
	return a.ScopePrefix() + tier.String()
}
