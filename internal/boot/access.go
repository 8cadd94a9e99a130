package boot

import (
	"cmp"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Access says which callers the gateway accepts. The zero Access is not valid: a gateway without
// these settings accepts nobody and does not start.
type Access struct {
	Ways []string // PORTCULLIS_AUTH: jwt, token and iam, separated by commas; or only none

	// SignInTiers holds the tiers of PORTCULLIS_SIGN_IN_SCOPES; the default is all tiers. A client
	// requests the scopes of these tiers when it signs in. If the setting is none, SignInTiers is
	// nil: the issuer has no such scopes.
	SignInTiers []tool.Tier

	JWT identity.JWTOptions
	// PORTCULLIS_SCOPE_REQUEST_PREFIX: prefix of the scopes that clients request; "" for most
	// issuers
	ScopeRequest string

	// PORTCULLIS_ADMIN_CLIENT_ID: the gateway's client ID at the issuer for sign-in; "": no sign-in
	ClientID string
	// PORTCULLIS_ADMIN_CLIENT_SECRET: the secret, ${secretsmanager:name} or ${ssm:/name}; "": a
	// public client
	ClientSecret secret.Text

	// PORTCULLIS_SIGN_IN: "issuer": approvers sign in with an issuer that only the function of
	// /admin knows
	SignIn string

	// PORTCULLIS_TOKEN_KEY: at least 32 random bytes, and after a comma the previous key; or
	// ${secretsmanager:name}, ${ssm:/name} or file:PATH
	TokenKey secret.Text
	// PORTCULLIS_TOKEN_PREVIOUS_DAYS: for how many days after a key change the gateway accepts
	// tokens of the previous key; default 365, the longest life of a token
	PreviousDays int
	// PORTCULLIS_BOOTSTRAP_SHA256: digest of a pct_ token that may use only the admin API. If
	// PORTCULLIS_AUTH has token, it creates the first tokens. If PORTCULLIS_AUTH is none, it is the
	// only way to /admin from another machine.
	Bootstrap string

	// PORTCULLIS_TRUSTED_PROXIES: how many proxies before this program add to X-Forwarded-For.
	// Failed tokens count against the address that the outermost proxy saw.
	TrustedProxies int

	// PORTCULLIS_IAM_SERVERS: servers that a signed caller may see; "*" for all
	IAMServers []string
	// PORTCULLIS_IAM_TIERS: tiers that a signed caller may call; default read
	IAMTiers []tool.Tier
	// PORTCULLIS_IAM_ADMINS: ARNs of callers that may use the admin API; * matches any text
	IAMAdmins []string
}

// Open reports whether the gateway accepts every agent. It does not apply to the admin API.
func (a Access) Open() bool { return slices.Equal(a.Ways, []string{identity.WayNone}) }

// Takes reports whether callers may authenticate in this way.
func (a Access) Takes(way string) bool { return slices.Contains(a.Ways, way) }

// HasApprovers reports whether an approver can sign in at /admin with a browser. If the gateway
// accepts every agent, this needs the bootstrap token. It does not cover the owner of a gateway on
// one machine; see [Owner].
func (a Access) HasApprovers() bool {
	roles := a.JWT.Claims.Roles
	switch {
	case a.Takes(identity.WayToken), a.SignIn == byIssuer:
		return true
	case a.ClientID != "" && len(roles.Approvers)+len(roles.Operators) > 0:
		return true
	}
	return a.Open() && a.Bootstrap != ""
}

const (
	signInName = "PORTCULLIS_SIGN_IN"
	byIssuer   = "issuer"
)

// bootstrapName is the setting with the digest of a token for the admin API. Operators use the
// token to create the first agent tokens, or if the gateway accepts every agent.
const bootstrapName = "PORTCULLIS_BOOTSTRAP_SHA256"

// The settings of tiers, for the scopes that a client requests and for groups.
const (
	signInSetting     = "PORTCULLIS_SIGN_IN_SCOPES"
	tiersClaimSetting = "PORTCULLIS_TIERS_CLAIM"
	tiersSetting      = "PORTCULLIS_TIERS"
)

// accessNames returns the settings of each way to authenticate. If a setting belongs to a way that
// is off, the setting is a fault, because the operator may believe that it protects something.
func accessNames() map[string][]string {
	return map[string][]string{
		identity.WayJWT: {
			"PORTCULLIS_AUDIENCE", "PORTCULLIS_ID_CLAIM", "PORTCULLIS_SCOPE_CLAIMS", "PORTCULLIS_SCOPE_PREFIX", "PORTCULLIS_SCOPE_REQUEST_PREFIX",
			"PORTCULLIS_SERVERS_CLAIM", "PORTCULLIS_TOOLSETS_CLAIM", "PORTCULLIS_DEFAULT_SERVERS",
			signInSetting, tiersClaimSetting, tiersSetting,
		},
		identity.WayToken: {tokenKeySetting, tokenDaysSetting, bootstrapName, "PORTCULLIS_TRUSTED_PROXIES"},
		identity.WayIAM:   {"PORTCULLIS_IAM_SERVERS", "PORTCULLIS_IAM_TIERS", "PORTCULLIS_IAM_ADMINS"},
	}
}

// access reads which callers the gateway accepts.
func (r *reader) access(baseURL, adminURL string, streaming bool) Access {
	a := Access{Ways: r.list("PORTCULLIS_AUTH"), Bootstrap: strings.ToLower(r.getenv(bootstrapName)), ClientID: r.getenv(clientName), SignIn: r.getenv(signInName)}
	if a.SignIn != "" && a.SignIn != byIssuer {
		r.fault("%s %q: want issuer, or nothing", signInName, a.SignIn)
	}
	if len(a.Ways) == 0 {
		r.fault(`PORTCULLIS_AUTH is not set: set it to how callers prove who they are, jwt, token or iam, or to "none" to let every caller in`)
	}
	for _, way := range a.Ways {
		switch way {
		case identity.WayJWT, identity.WayToken, identity.WayIAM:
		case identity.WayNone:
			if len(a.Ways) > 1 {
				r.fault("PORTCULLIS_AUTH names none together with other ways: none accepts " +
					"every caller, so the other ways would have no effect")
			}
		default:
			r.fault("PORTCULLIS_AUTH: %q is not known: want jwt, token, iam, or none", way)
		}
	}
	names := accessNames()
	for _, way := range []string{identity.WayJWT, identity.WayToken, identity.WayIAM} {
		for _, name := range names[way] {
			if r.getenv(name) != "" && !a.Takes(way) && (name != bootstrapName || !a.Open()) {
				r.fault("%s is set, but PORTCULLIS_AUTH does not name %s", name, way)
			}
		}
	}
	if digest, err := hex.DecodeString(a.Bootstrap); a.Bootstrap != "" && (err != nil || len(digest) != 32) {
		r.fault("%s: want the SHA-256 of a token, 64 hex digits, and never the token", bootstrapName)
	}
	r.issuer(&a)
	if a.ClientID != "" {
		r.people(&a, adminURL)
	}
	if a.Takes(identity.WayJWT) {
		r.jwt(&a, baseURL, streaming)
	}
	if a.Takes(identity.WayToken) {
		r.tokens(&a)
	}
	if a.Takes(identity.WayIAM) {
		r.iam(&a)
	}
	return a
}

// maxProxies is the maximum of PORTCULLIS_TRUSTED_PROXIES. A larger number is probably a port or a
// part of an address.
const maxProxies = 10

// placeholderURL replaces the address of a Function URL while the settings are checked. The first
// request contains the real address.
const placeholderURL = "https://function-url.invalid"

// jwtAt returns which tokens of an issuer a gateway at a public address accepts. The audience of
// the tokens is the gateway's own /mcp, unless the settings name another audience.
func (a Access) jwtAt(base string) identity.JWTOptions {
	o := a.JWT
	if o.BaseURL = base; len(o.Audiences) == 0 {
		o.Audiences = []string{base + "/mcp"}
	}
	return o
}

func (r *reader) jwt(a *Access, baseURL string, streaming bool) {
	a.JWT.Audiences, a.JWT.BaseURL = r.list("PORTCULLIS_AUDIENCE"), baseURL
	c := &a.JWT.Claims
	c.ID, c.Scopes = r.getenv("PORTCULLIS_ID_CLAIM"), r.list("PORTCULLIS_SCOPE_CLAIMS")
	c.ScopePrefix = cmp.Or(r.getenv("PORTCULLIS_SCOPE_PREFIX"), identity.DefaultScopePrefix)
	c.Servers, c.Toolsets = r.getenv("PORTCULLIS_SERVERS_CLAIM"), r.getenv("PORTCULLIS_TOOLSETS_CLAIM")
	c.DefaultServers = r.list("PORTCULLIS_DEFAULT_SERVERS")
	a.ScopeRequest = r.getenv("PORTCULLIS_SCOPE_REQUEST_PREFIX")
	if r.getenv(signInSetting) != identity.WayNone {
		a.SignInTiers = r.tiers(signInSetting, tool.Read, tool.Write, tool.Destructive)
	}
	c.TierClaim, c.TierGroups = r.getenv(tiersClaimSetting), r.tierGroups()
	settings := a.JWT
	if baseURL == "" && streaming {
		settings = a.jwtAt(placeholderURL)
	}
	if _, err := identity.NewJWT(settings); err != nil {
		r.fault("PORTCULLIS_ISSUER, _AUDIENCE, _ALGORITHMS, _JWKS_URL: %w", err)
	}
	if baseURL == "" && !streaming {
		r.fault("PORTCULLIS_BASE_URL is not set: clients find the issuer through it")
	}
}

func (r *reader) iam(a *Access) {
	a.IAMServers, a.IAMAdmins = r.list("PORTCULLIS_IAM_SERVERS"), r.list("PORTCULLIS_IAM_ADMINS")
	a.IAMTiers = r.tiers("PORTCULLIS_IAM_TIERS", tool.Read)
}

// tiers returns the tiers in a setting. If the setting is empty, it returns the argument otherwise.
func (r *reader) tiers(setting string, otherwise ...tool.Tier) (out []tool.Tier) {
	for _, name := range r.list(setting) {
		tier, err := tool.ParseTier(name)
		if err != nil {
			r.fault("%s: %w", setting, err)
		}
		out = append(out, tier)
	}
	if out == nil {
		return otherwise
	}
	return out
}

// tierGroups returns which groups have which tiers.
func (r *reader) tierGroups() (out []identity.TierGroup) {
	for _, entry := range r.list(tiersSetting) {
		at := strings.LastIndex(entry, "=") // a group's name may contain "="
		group := strings.TrimSpace(entry[:max(at, 0)])
		tier, err := tool.ParseTier(strings.TrimSpace(entry[at+1:]))
		if group == "" || err != nil {
			r.fault("%s %q: want a group, = and read, write or destructive: devs=write", tiersSetting, entry)
			continue
		}
		out = append(out, identity.TierGroup{Group: group, Tier: tier})
	}
	if out == nil && r.getenv(tiersClaimSetting) != "" {
		r.fault("%s is set, but %s names no group: set it to groups and their tiers, such as devs=write",
			tiersClaimSetting, tiersSetting)
	}
	return out
}
