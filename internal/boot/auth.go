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

// Authenticator returns the authenticator that all handlers of a program share: failed attempts
// count together, and the issuer's keys are cached once.
func (p *Program) Authenticator(ctx context.Context) (identity.Authenticator, error) {
	p.authOnce.Do(func() { p.auth, p.authErr = p.newAuthenticator(ctx, p.Settings.BaseURL) })
	return p.auth, p.authErr
}

// authenticatorAt returns the Authenticator of a gateway at a public address. An issuer's tokens
// may name this address as their audience.
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

// Names returns the agents that can exist. It includes agent tokens after the first call of
// [Program.Authenticator].
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

// iam returns the rights of signed callers.
func (a Access) iam() *identity.IAM {
	return &identity.IAM{Signer: apigw.Signer, Servers: a.IAMServers, Tiers: a.IAMTiers, Admins: a.IAMAdmins}
}

// Provider returns the issuer whose tokens the gateway accepts, or at which people sign in. All
// callers share its keys.
func (p *Program) Provider() (*identity.Provider, error) {
	p.providerOnce.Do(func() {
		o := p.Settings.Access.JWT.ProviderOptions
		o.Now = p.now
		p.provider, p.providerErr = identity.NewProvider(o)
	})
	return p.provider, p.providerErr
}

// ClientSecret returns the gateway's client secret at the issuer, from the place that the setting
// names.
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

// resource returns the metadata that tells clients where to get a token, or nil if the gateway
// accepts no tokens of an issuer.
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

// ScopePrefix returns the text before a tier in the scope that a client requests.
func (a Access) ScopePrefix() string { return a.ScopeRequest + a.JWT.Claims.ScopePrefix }

// signIn returns the scopes that a client requests when it signs in.
func (a Access) signIn(prefix string) (out []string) {
	for _, tier := range a.SignInTiers {
		out = append(out, prefix+tier.String())
	}
	return out
}

// scope returns the scope that a call of the tier needs, or "" if no scope of the issuer helps.
func (a Access) scope(tier tool.Tier) string {
	if a.Takes(identity.WayJWT) && a.SignInTiers == nil {
		return ""
	}
	return a.ScopePrefix() + tier.String()
}
