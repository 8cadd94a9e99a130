package boot

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/identity"
	"github.com/portcullis-mcp/portcullis/pkg/secret"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// Access says who is let in. The zero Access is not valid: a gateway that was told
// nothing lets nobody in, and does not start.
type Access struct {
	Ways []string // PORTCULLIS_AUTH: jwt, token, iam, parted by commas; or none, alone

	JWT          identity.JWTOptions
	ScopeRequest string // PORTCULLIS_SCOPE_REQUEST_PREFIX: what a client asks the issuer for is this and the scope; "" for most

	TokenKey  secret.Text // PORTCULLIS_TOKEN_KEY: 32 random bytes or more, or ${secretsmanager:name} or ${ssm:/name}
	Bootstrap string      // PORTCULLIS_BOOTSTRAP_SHA256: of a pct_ token that may use the admin API alone; with token to make the first tokens, with none the one way to /admin beyond loopback

	TrustedProxies int // PORTCULLIS_TRUSTED_PROXIES: how many proxies before this program add to X-Forwarded-For; failed tokens are counted by the address that the outermost saw

	IAMServers []string    // PORTCULLIS_IAM_SERVERS: that a signed caller may see; "*" for all
	IAMTiers   []tool.Tier // PORTCULLIS_IAM_TIERS: that it may call; default read
	IAMAdmins  []string    // PORTCULLIS_IAM_ADMINS: ARNs, * for any text, of who may use the admin API
}

// Open reports whether every agent is let in. Who may use the admin API is another question.
func (a Access) Open() bool { return slices.Equal(a.Ways, []string{identity.WayNone}) }

// Takes reports whether callers may prove who they are in this way.
func (a Access) Takes(way string) bool { return slices.Contains(a.Ways, way) }

// bootstrapName is the setting that opens the admin API: to make the first agent tokens, or
// where every agent is let in.
const bootstrapName = "PORTCULLIS_BOOTSTRAP_SHA256"

// accessNames are the settings of each way. One that is set for a way that is not taken
// is a fault: whoever set it believes that it guards something.
func accessNames() map[string][]string {
	return map[string][]string{
		identity.WayJWT: {
			"PORTCULLIS_ISSUER", "PORTCULLIS_AUDIENCE", "PORTCULLIS_ALGORITHMS", "PORTCULLIS_JWKS_URL", "PORTCULLIS_ID_CLAIM",
			"PORTCULLIS_SCOPE_CLAIMS", "PORTCULLIS_SCOPE_PREFIX", "PORTCULLIS_SCOPE_REQUEST_PREFIX", "PORTCULLIS_SERVERS_CLAIM",
			"PORTCULLIS_TOOLSETS_CLAIM", "PORTCULLIS_DEFAULT_SERVERS", "PORTCULLIS_ADMIN_CLAIM", "PORTCULLIS_ADMIN_GROUP",
		},
		identity.WayToken: {"PORTCULLIS_TOKEN_KEY", bootstrapName, "PORTCULLIS_TRUSTED_PROXIES"},
		identity.WayIAM:   {"PORTCULLIS_IAM_SERVERS", "PORTCULLIS_IAM_TIERS", "PORTCULLIS_IAM_ADMINS"},
	}
}

// loadAccess reads who is let in, and every fault of it.
func loadAccess(getenv func(string) string, baseURL string) (Access, error) {
	a := Access{Ways: list(getenv("PORTCULLIS_AUTH"))}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(a.Ways) == 0 {
		fault(`PORTCULLIS_AUTH is not set: nobody could be told from anybody; set it to jwt, token or iam, or to "none" to let every caller in`)
	}
	for _, way := range a.Ways {
		switch way {
		case identity.WayJWT, identity.WayToken, identity.WayIAM:
		case identity.WayNone:
			if len(a.Ways) > 1 {
				fault("PORTCULLIS_AUTH names none beside others: who is let in without proof needs none")
			}
		default:
			fault("PORTCULLIS_AUTH: %q is not known: want jwt, token, iam, or none", way)
		}
	}
	names := accessNames()
	for _, way := range []string{identity.WayJWT, identity.WayToken, identity.WayIAM} {
		for _, name := range names[way] {
			if getenv(name) != "" && !a.Takes(way) && (name != bootstrapName || !a.Open()) {
				fault("%s is set, but PORTCULLIS_AUTH does not name %s", name, way)
			}
		}
	}
	a.Bootstrap = strings.ToLower(getenv(bootstrapName))
	if digest, err := hex.DecodeString(a.Bootstrap); a.Bootstrap != "" && (err != nil || len(digest) != 32) {
		fault("%s: want the SHA-256 of a token, 64 hex digits, and never the token", bootstrapName)
	}
	if a.Takes(identity.WayJWT) {
		faults = append(faults, a.loadJWT(getenv, baseURL))
		if baseURL == "" {
			fault("PORTCULLIS_BASE_URL is not set: clients find the issuer by way of it")
		}
	}
	if a.Takes(identity.WayToken) {
		faults = append(faults, a.loadTokens(getenv))
	}
	if a.Takes(identity.WayIAM) {
		faults = append(faults, a.loadIAM(getenv))
	}
	return a, errors.Join(faults...)
}

func (a *Access) loadJWT(getenv func(string) string, baseURL string) error {
	a.JWT = identity.JWTOptions{
		Issuer:    getenv("PORTCULLIS_ISSUER"),
		Audiences: list(getenv("PORTCULLIS_AUDIENCE")),
		BaseURL:   baseURL,
		KeysURL:   getenv("PORTCULLIS_JWKS_URL"),
		Claims: identity.ClaimMap{
			ID:          getenv("PORTCULLIS_ID_CLAIM"),
			Scopes:      list(getenv("PORTCULLIS_SCOPE_CLAIMS")),
			ScopePrefix: getenv("PORTCULLIS_SCOPE_PREFIX"),
			Servers:     getenv("PORTCULLIS_SERVERS_CLAIM"), Toolsets: getenv("PORTCULLIS_TOOLSETS_CLAIM"),
			DefaultServers: list(getenv("PORTCULLIS_DEFAULT_SERVERS")),
			AdminClaim:     getenv("PORTCULLIS_ADMIN_CLAIM"), AdminGroup: getenv("PORTCULLIS_ADMIN_GROUP"),
		},
	}
	if algs := list(getenv("PORTCULLIS_ALGORITHMS")); len(algs) > 0 {
		a.JWT.Algorithms = algs
	}
	if a.JWT.Claims.ScopePrefix == "" {
		a.JWT.Claims.ScopePrefix = identity.DefaultScopePrefix
	}
	a.ScopeRequest = getenv("PORTCULLIS_SCOPE_REQUEST_PREFIX")
	if _, err := identity.NewJWT(a.JWT); err != nil {
		return fmt.Errorf("PORTCULLIS_ISSUER, _AUDIENCE, _ALGORITHMS, _JWKS_URL: %w", err)
	}
	return nil
}

// maxProxies is more than anybody puts before a gateway, and less than a mistaken address or port.
const maxProxies = 10

func (a *Access) loadTokens(getenv func(string) string) error {
	key := getenv("PORTCULLIS_TOKEN_KEY")
	a.TokenKey = secret.New(key)
	var faults []error
	if _, ref := secret.Reference(key); !ref && len(key) < 32 {
		faults = append(faults, errors.New("PORTCULLIS_TOKEN_KEY: want 32 random bytes or more, such as `openssl rand -hex 32` prints"))
	}
	if n := getenv("PORTCULLIS_TRUSTED_PROXIES"); n != "" {
		var err error
		if a.TrustedProxies, err = strconv.Atoi(n); err != nil || a.TrustedProxies < 0 || a.TrustedProxies > maxProxies {
			faults = append(faults, fmt.Errorf("PORTCULLIS_TRUSTED_PROXIES %q: want how many proxies stand before the gateway, 0 to %d", n, maxProxies))
		}
	}
	return errors.Join(faults...)
}

func (a *Access) loadIAM(getenv func(string) string) error {
	a.IAMServers, a.IAMAdmins = list(getenv("PORTCULLIS_IAM_SERVERS")), list(getenv("PORTCULLIS_IAM_ADMINS"))
	a.IAMTiers = []tool.Tier{tool.Read}
	names := list(getenv("PORTCULLIS_IAM_TIERS"))
	if len(names) > 0 {
		a.IAMTiers = nil
	}
	for _, name := range names {
		tier, err := tool.ParseTier(name)
		if err != nil {
			return fmt.Errorf("PORTCULLIS_IAM_TIERS: %w", err)
		}
		a.IAMTiers = append(a.IAMTiers, tier)
	}
	return nil
}

// list reads names that commas part.
func list(s string) []string {
	var out []string
	for name := range strings.SplitSeq(s, ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}
