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

// Access says who is let in. The zero Access is not valid: a gateway that was told
// nothing lets nobody in, and does not start.
type Access struct {
	Ways []string // PORTCULLIS_AUTH: jwt, token, iam, several with commas between; or none, alone

	// SignInTiers are the tiers of PORTCULLIS_SIGN_IN_SCOPES, whose scopes a client asks for when it
	// signs in; default all. Nil, in the setting none, means that the issuer has no such scopes.
	SignInTiers []tool.Tier

	JWT          identity.JWTOptions
	ScopeRequest string // PORTCULLIS_SCOPE_REQUEST_PREFIX: what a client asks the issuer for is this and the scope; "" for most

	ClientID     string      // PORTCULLIS_ADMIN_CLIENT_ID: of the gateway at the issuer, where people sign in; "": nobody does
	ClientSecret secret.Text // PORTCULLIS_ADMIN_CLIENT_SECRET: or ${secretsmanager:name} or ${ssm:/name}; "": it is a public client

	SignIn string // PORTCULLIS_SIGN_IN: "issuer": approvers sign in with an issuer that only the function of /admin knows

	TokenKey     secret.Text // PORTCULLIS_TOKEN_KEY: 32 random bytes or more, and after a comma those before; or ${secretsmanager:name}, ${ssm:/name} or file:PATH
	PreviousDays int         // PORTCULLIS_TOKEN_PREVIOUS_DAYS: for how many days after the key was replaced tokens under the one before are taken; default 365, the longest life of a token
	Bootstrap    string      // PORTCULLIS_BOOTSTRAP_SHA256: of a pct_ token that may use the admin API alone; with token to make the first tokens, with none the one way to /admin beyond loopback

	TrustedProxies int // PORTCULLIS_TRUSTED_PROXIES: how many proxies before this program add to X-Forwarded-For; failed tokens are counted by the address that the outermost saw

	IAMServers []string    // PORTCULLIS_IAM_SERVERS: that a signed caller may see; "*" for all
	IAMTiers   []tool.Tier // PORTCULLIS_IAM_TIERS: that it may call; default read
	IAMAdmins  []string    // PORTCULLIS_IAM_ADMINS: ARNs, * for any text, of who may use the admin API
}

// Open reports whether every agent is let in. Who may use the admin API is another question.
func (a Access) Open() bool { return slices.Equal(a.Ways, []string{identity.WayNone}) }

// Takes reports whether callers may prove who they are in this way.
func (a Access) Takes(way string) bool { return slices.Contains(a.Ways, way) }

// HasApprovers reports whether an approver can sign in at /admin with a browser. The owner of a gateway
// on one machine can where every agent is let in; see [Owner].
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

// bootstrapName is the setting that opens the admin API: to make the first agent tokens, or
// where every agent is let in.
const bootstrapName = "PORTCULLIS_BOOTSTRAP_SHA256"

// Settings of tiers: of the scopes that a client asks for, and of groups.
const (
	signInSetting     = "PORTCULLIS_SIGN_IN_SCOPES"
	tiersClaimSetting = "PORTCULLIS_TIERS_CLAIM"
	tiersSetting      = "PORTCULLIS_TIERS"
)

// accessNames are the settings of each way. One that is set for a way that is not taken
// is a fault: whoever set it believes that it guards something.
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

// access reads who is let in.
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
				r.fault("PORTCULLIS_AUTH names none beside others: none lets every caller in, so the others would prove nothing")
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

// maxProxies is more than anybody puts before a gateway, and less than a mistaken address or port.
const maxProxies = 10

// standIn stands for the address of a Function URL, which the first request brings, while the
// settings are checked.
const standIn = "https://function-url.invalid"

// jwtAt returns which tokens of an issuer are taken by a gateway at a public address: those made
// out to its own /mcp, unless the settings name others.
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
		settings = a.jwtAt(standIn)
	}
	if _, err := identity.NewJWT(settings); err != nil {
		r.fault("PORTCULLIS_ISSUER, _AUDIENCE, _ALGORITHMS, _JWKS_URL: %w", err)
	}
	if baseURL == "" && !streaming {
		r.fault("PORTCULLIS_BASE_URL is not set: clients find the issuer by way of it")
	}
}

func (r *reader) iam(a *Access) {
	a.IAMServers, a.IAMAdmins = r.list("PORTCULLIS_IAM_SERVERS"), r.list("PORTCULLIS_IAM_ADMINS")
	a.IAMTiers = r.tiers("PORTCULLIS_IAM_TIERS", tool.Read)
}

// tiers returns the tiers that a setting lists.
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
		at := strings.LastIndex(entry, "=") // the name of a group may hold one
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
