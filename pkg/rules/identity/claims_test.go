package identity_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// grants has the members of an agent except its id and claims.
type grants struct {
	Servers  []string
	Tiers    []tool.Tier
	Toolsets []string
	Admin    bool
}

func TestClaimMapAgent(t *testing.T) {
	all := []tool.Tier{tool.Read, tool.Write, tool.Destructive}
	cognito := identity.ClaimMap{ScopePrefix: "portcullis/", AdminClaim: "cognito:groups", Roles: identity.Roles{Operators: []string{"gatekeepers"}}}
	entra := identity.ClaimMap{ID: "oid", Scopes: []string{"scp", "roles"}, Servers: "extension_servers", AdminClaim: "roles", Roles: identity.Roles{Operators: []string{"Gate.Admin"}}}
	teams := identity.ClaimMap{TierGroups: []identity.TierGroup{{Group: "devs", Tier: tool.Write}, {Group: "on call", Tier: tool.Destructive}}}
	roles := identity.ClaimMap{TierClaim: "roles", TierGroups: teams.TierGroups}
	for _, tt := range []struct {
		name   string
		m      identity.ClaimMap
		claims map[string]any
		want   grants
	}{
		{"nothing said", identity.ClaimMap{}, claims("sub", "a"), grants{}},
		{"read", identity.ClaimMap{}, claims("sub", "a", "scope", "portcullis:read"), grants{Tiers: all[:1]}},
		{"write includes read", identity.ClaimMap{}, claims("sub", "a", "scope", "portcullis:write"), grants{Tiers: all[:2]}},
		{"destructive includes all tiers", identity.ClaimMap{}, claims("sub", "a", "scp", []any{"portcullis:destructive"}), grants{Tiers: all}},
		{"admin is no tier", identity.ClaimMap{}, claims("sub", "a", "scope", "portcullis:admin"), grants{Admin: true}},
		{"scopes of other programs", identity.ClaimMap{}, claims("sub", "a", "scope", "read write other:read portcullis:READ xportcullis:read"), grants{}},
		{"servers by claim", identity.ClaimMap{}, claims("sub", "a", "portcullis_servers", []any{"files", "mail"}), grants{Servers: []string{"files", "mail"}}},
		{"servers by one text", identity.ClaimMap{}, claims("sub", "a", "portcullis_servers", "files  mail"), grants{Servers: []string{"files", "mail"}}},
		{"servers by scope and claim", identity.ClaimMap{}, claims("sub", "a", "scope", "portcullis:server:mail", "portcullis_servers", "files"), grants{Servers: []string{"files", "mail"}}},
		{"the default applies to a token without servers", identity.ClaimMap{DefaultServers: []string{"*"}}, claims("sub", "a"), grants{Servers: []string{"*"}}},
		{"the default does not apply to an empty list", identity.ClaimMap{DefaultServers: []string{"*"}}, claims("sub", "a", "portcullis_servers", []any{}), grants{}},
		{"toolsets", identity.ClaimMap{}, claims("sub", "a", "portcullis_toolsets", "docs"), grants{Toolsets: []string{"docs"}}},
		{"an empty list of toolsets allows nothing", identity.ClaimMap{}, claims("sub", "a", "portcullis_toolsets", ""), grants{Toolsets: []string{}}},
		{"a group has no admin rights unless configured", identity.ClaimMap{}, claims("sub", "a", "groups", []any{"admins", ""}), grants{}},
		{"a group's tier includes the weaker tiers", teams, claims("sub", "a", "groups", []any{"x", "devs"}), grants{Tiers: all[:2]}},
		{"the strongest of groups and scopes", teams, claims("sub", "a", "groups", []any{"devs"}, "scope", "portcullis:destructive"), grants{Tiers: all}},
		{"one group, as a text with a space", roles, claims("sub", "a", "roles", "on call"), grants{Tiers: all}},
		{"groups of another claim", roles, claims("sub", "a", "groups", []any{"devs"}), grants{}},
		{"cognito", cognito, claims("sub", "a", "token_use", "access", "scope", "portcullis/read", "cognito:groups", []any{"gatekeepers"}), grants{Tiers: all[:1], Admin: true}},
		{"entra, for a person", entra, claims("sub", "x", "oid", "a", "scp", "portcullis:write", "extension_servers", []any{"files"}), grants{Servers: []string{"files"}, Tiers: all[:2]}},
		{"entra, for a program", entra, claims("sub", "x", "oid", "a", "roles", []any{"portcullis:read", "Gate.Admin"}), grants{Tiers: all[:1], Admin: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, err := tt.m.Agent(tt.claims)
			if err != nil || a.ID != "a" {
				t.Fatalf("Agent = %+v, %v", a, err)
			}
			got := grants{a.Servers, a.Tiers, a.Toolsets, a.Rights.Role == identity.Operator}
			if len(got.Servers) == 0 {
				got.Servers = nil
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("grants (-want +got):\n%s", d)
			}
		})
	}
}

// A claim of groups that cannot be read makes the whole token invalid.
func TestTierClaimUnreadable(t *testing.T) {
	m := identity.ClaimMap{TierGroups: []identity.TierGroup{{Group: "devs", Tier: tool.Write}}}
	a, err := m.Agent(claims("sub", "a", "scope", "portcullis:read", "groups", map[string]any{"devs": true}))
	if err == nil {
		t.Errorf("Agent = %+v, want an error", a)
	}
}

func TestClaimsThatDifferByToken(t *testing.T) {
	a, err := identity.ClaimMap{}.Agent(claims("sub", "a", "exp", 1, "iat", 2, "nbf", 3, "jti", "x", "team", "blue"))
	require.OK(t, err)
	if d := cmp.Diff(claims("sub", "a", "team", "blue"), a.Claims); d != "" {
		t.Errorf("claims (-want +got):\n%s", d)
	}
}

func TestClaimsOfReservedNames(t *testing.T) {
	a, err := identity.ClaimMap{}.Agent(claims("sub", "a", "arn", "arn:aws:iam::1:role/ci", "token", "ci", "kind", "iam", "team", "blue"))
	require.OK(t, err)
	if d := cmp.Diff(identity.Agent{ID: "a", Way: identity.WayJWT, Claims: claims("sub", "a", "team", "blue")}, a); d != "" {
		t.Errorf("Agent (-want +got):\n%s", d)
	}
}

func FuzzClaimsNeverGrantWithoutAnID(f *testing.F) {
	for _, s := range []string{`{"sub":"a","scope":"portcullis:read"}`, `{"sub":1}`, `{"scp":[1]}`, `{"sub":"a","groups":{"x":1}}`, `[]`, `{"sub":"token:x"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var c map[string]any
		if json.Unmarshal(data, &c) != nil {
			return
		}
		a, err := identity.ClaimMap{Roles: identity.Roles{Operators: []string{"admins"}}}.Agent(c)
		if err != nil {
			if d := cmp.Diff(identity.Agent{}, a); d != "" {
				t.Errorf("a refused caller is %+v", a)
			}
			return
		}
		if a.ID == "" || a.ID != c["sub"] {
			t.Errorf("id = %q of %v", a.ID, c["sub"])
		}
	})
}

func TestClient(t *testing.T) {
	for want, a := range map[string]identity.Agent{
		"cursor": {Way: identity.WayJWT, Claims: map[string]any{"azp": "cursor", "client_id": "x", "cid": "y"}},
		"x":      {Way: identity.WayJWT, Claims: map[string]any{"azp": "a\nb", "client_id": "x", "cid": "y"}},
		"y":      {Way: identity.WayJWT, Claims: map[string]any{"azp": 7, "client_id": strings.Repeat("x", 257), "cid": "y"}},
		"":       {Way: identity.WayToken, Claims: map[string]any{"azp": "cursor"}},
	} {
		if got := a.Client(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// If another claim names the agent, the subject is the person for whom the agent acts, unless the
// subject is the client itself.
func TestHuman(t *testing.T) {
	for _, test := range []struct {
		name   string
		id     string
		claims map[string]any
		want   string
	}{
		{"the agent is the person", "", map[string]any{"sub": "kim"}, ""},
		{"a client acts for a person", "azp", map[string]any{"sub": "kim", "azp": "app-1"}, "kim"},
		{"a client for itself", "azp", map[string]any{"sub": "app-1", "azp": "app-1"}, ""},
		{"a client whose agent has a name", "name", map[string]any{"sub": "app-1", "client_id": "app-1", "name": "ci"}, ""},
		{"no subject", "azp", map[string]any{"azp": "app-1"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, err := identity.ClaimMap{ID: test.id}.Agent(test.claims)
			if err != nil || a.Human != test.want {
				t.Errorf("%q, %v, want %q", a.Human, err, test.want)
			}
		})
	}
}
