package identity

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A ClaimMap maps the claims of a verified JWT to an [Agent].
//
// A scope is the prefix, followed by read, write, destructive, admin, or "server:" with the name of
// a server. A tier's scope includes the weaker tiers. The agent gets only the rights that the token
// grants. Without a scope it can call nothing.
type ClaimMap struct {
	ID          string   // claim that names the agent; "": sub
	Scopes      []string // claims with scopes, as a list or separated by spaces; nil: scope, scp
	ScopePrefix string   // "": portcullis:
	Servers     string   // claim that lists servers, "*" for all; "": portcullis_servers
	Toolsets    string   // claim that lists toolsets; "": portcullis_toolsets

	// DefaultServers are the servers of a token that names none, by claim or by scope.
	DefaultServers []string

	TierClaim  string      // claim that lists groups or roles; "": groups
	TierGroups []TierGroup // the tiers of their members, in addition to scopes

	AdminClaim string // claim that lists groups or roles; "": groups
	Roles      Roles  // what members of these groups may do at /admin; a caller with the scope admin is an [Operator]
}

// A TierGroup is a group whose members have a tier and the weaker tiers.
type TierGroup struct {
	Group string
	Tier  tool.Tier
}

// DefaultScopePrefix starts the scopes of this gateway at an issuer with other clients.
const DefaultScopePrefix = "portcullis:"

// Prefixes of agent ids that no JWT may name.
const (
	tokenPrefix = "token:"
	arnPrefix   = "arn:"
	maxAgentID  = 256 // bytes, as the audit keeps
)

// reserved reports whether an id is reserved for another caller: the agent of [None], the audit's
// name for a sync, or the holder of the bootstrap token.
func reserved(id string) bool {
	return strings.HasPrefix(id, tokenPrefix) || strings.HasPrefix(id, arnPrefix) ||
		id == anonymous || id == "sync" || id == BootstrapAgent
}

func (m ClaimMap) filled() ClaimMap {
	m.ID, m.ScopePrefix = cmp.Or(m.ID, claimSubject), cmp.Or(m.ScopePrefix, DefaultScopePrefix)
	m.Servers, m.Toolsets = cmp.Or(m.Servers, "portcullis_servers"), cmp.Or(m.Toolsets, "portcullis_toolsets")
	m.TierClaim, m.AdminClaim = cmp.Or(m.TierClaim, "groups"), cmp.Or(m.AdminClaim, "groups")
	if m.Scopes == nil {
		m.Scopes = []string{"scope", "scp"}
	}
	return m
}

// Members of an agent that policies read and that are no claims of a JWT. [ClaimMap.Agent] leaves
// out claims with these names, because the author of a rule with principal.arn expects a verified
// ARN.
const (
	claimARN   = "arn"
	claimToken = "token"
	claimKind  = "kind" // the agent's Way
)

// claimSubject is the claim that names the subject of a token: a person, or a client that
// requested the token for itself.
const claimSubject = "sub"

// dropped reports whether policies do not read this claim of a JWT. The first four differ between
// tokens of one agent: rules have no use for them, and they would make every cached result for an
// agent useless.
func dropped(claim string) bool {
	return slices.Contains([]string{"exp", "iat", "nbf", "jti", claimARN, claimToken, claimKind}, claim)
}

// Agent reads the claims. A claim in a wrong form is an error, because it was meant to grant or to
// limit something.
func (m ClaimMap) Agent(claims map[string]any) (Agent, error) {
	m = m.filled()
	id, _ := claims[m.ID].(string)
	if !nameable(id) {
		return Agent{}, fmt.Errorf("claim %q names no agent", m.ID)
	}
	// Cognito marks an identity token by this claim.
	if use, ok := claims["token_use"]; ok && use != "access" {
		return Agent{}, errors.New("the token is not an access token")
	}
	a := Agent{ID: id, Way: WayJWT, Claims: maps.Clone(claims)}
	person, err := personOf(claims)
	if err != nil {
		return Agent{}, err
	}
	if person != "" {
		if a.Subject, err = subject(claims, person); err != nil {
			return Agent{}, err
		}
		if person != id {
			a.Human = person
		}
	}
	maps.DeleteFunc(a.Claims, func(name string, _ any) bool { return dropped(name) })
	var faults []error
	list := func(claim string) (names []string, given bool) {
		names, given, err := listClaim(claims, claim)
		if err != nil {
			faults = append(faults, err)
		}
		return names, given
	}
	var scopes []string
	for _, claim := range m.Scopes {
		granted, _ := list(claim)
		scopes = append(scopes, granted...)
	}
	servers, named := list(m.Servers)
	for _, s := range scopes {
		if name, ok := strings.CutPrefix(s, m.ScopePrefix+"server:"); ok && name != "" {
			servers, named = append(servers, name), true
		}
	}
	if !named {
		servers = m.DefaultServers
	}
	a.Servers = slices.Clone(servers)
	var members []string
	if len(m.TierGroups) > 0 {
		if members, err = groups(claims, m.TierClaim); err != nil {
			faults = append(faults, err)
		}
	}
	a.Tiers = m.tiers(scopes, members)
	if toolsets, given := list(m.Toolsets); given {
		a.Toolsets = append([]string{}, toolsets...)
	}
	switch {
	case hasAny(scopes, m.ScopePrefix+scopeAdmin):
		a.Rights = Everything()
	case !m.Roles.Empty():
		roles, err := groups(claims, m.AdminClaim)
		if err != nil {
			faults = append(faults, err)
		}
		a.Rights = m.Roles.RightsOf(roles)
	}
	if len(faults) > 0 {
		return Agent{}, errors.Join(faults...)
	}
	return a, nil
}

// clientClaims are the claims that name the client of a token, in the order of their use.
var clientClaims = []string{"azp", "client_id", "cid"}

// personOf returns the sub of a person's token. It returns "" if the token has no sub, or belongs
// to a client itself. A client's token has a sub that names the client (RFC 9068; Okta's claim cid
// names it, too), or the marks of Auth0 and Entra. A sub that is too long or invalid is an error:
// without a sub, two people of one agent id would count as one caller.
func personOf(claims map[string]any) (string, error) {
	sub, isText := claims[claimSubject].(string)
	own := claims["client_id"] == sub || claims["azp"] == sub || claims["cid"] == sub || claims["gty"] == "client-credentials" || claims["idtyp"] == "app"
	switch {
	case claims[claimSubject] == nil, isText && (own || sub == ""):
		return "", nil
	case !validID(sub):
		return "", fmt.Errorf("claim %q names nobody: want a text of at most %d bytes without control characters", claimSubject, maxAgentID)
	}
	return sub, nil
}

// subject returns issuer and sub of a person, which are unique and the same at each sign-in; "" if
// the issuer is not named. An issuer with a space is an error: its end would be ambiguous.
func subject(claims map[string]any, sub string) (string, error) {
	issuer, _ := claims["iss"].(string)
	switch {
	case issuer == "":
		return "", nil
	case strings.Contains(issuer, " "):
		return "", errors.New(`claim "iss" is not a URL: it has a space`)
	}
	return issuer + " " + sub, nil
}

// tiers returns the tiers that scopes and groups grant, with the weaker tiers of each.
func (m ClaimMap) tiers(scopes, groups []string) (out []tool.Tier) {
	granted := false
	for _, tier := range []tool.Tier{tool.Destructive, tool.Write, tool.Read} {
		granted = granted || slices.Contains(scopes, m.ScopePrefix+tier.String())
		for _, g := range groups {
			granted = granted || slices.Contains(m.TierGroups, TierGroup{g, tier})
		}
		if granted {
			out = append([]tool.Tier{tier}, out...)
		}
	}
	return out
}

// groups returns the groups or roles in a claim. A text without a list is one name, which may
// contain spaces. Splitting it at spaces would make two names of it.
func groups(claims map[string]any, claim string) ([]string, error) {
	if name, ok := claims[claim].(string); ok {
		return []string{name}, nil
	}
	list, _, err := listClaim(claims, claim)
	return list, err
}

// listClaim returns a claim that is a list of texts, or one text with spaces between. A null
// counts as absent.
func listClaim(claims map[string]any, name string) (list []string, given bool, err error) {
	switch v := claims[name].(type) {
	case nil:
		return nil, false, nil
	case string:
		return strings.Fields(v), true, nil
	case []any:
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, true, fmt.Errorf("claim %q is not a list of texts", name)
			}
			list = append(list, s)
		}
		return list, true, nil
	}
	return nil, true, fmt.Errorf("claim %q is not a list of texts", name)
}

// validID reports whether an id may be in a log and in the audit.
func validID(id string) bool {
	return id != "" && len(id) <= maxAgentID && utf8.ValidString(id) && !strings.ContainsFunc(id, unicode.IsControl)
}

// ClaimsOf returns the claims of a verified token, with numbers in their original form.
func ClaimsOf(t *oidc.IDToken) (map[string]any, error) {
	var payload json.RawMessage
	if err := t.Claims(&payload); err != nil {
		return nil, fmt.Errorf("claims: %w", err)
	}
	return readClaims(payload)
}

// readClaims parses claims, with numbers in their original form.
func readClaims(payload []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	var claims map[string]any
	if err := d.Decode(&claims); err != nil {
		return nil, fmt.Errorf("claims: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("claims: more than one value of JSON")
	}
	return claims, nil
}
