package identity_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

func TestClaimMapPerson(t *testing.T) {
	m := identity.ClaimMap{Roles: identity.Roles{
		Viewers: []string{"staff"}, Approvers: []identity.ApproverGroup{{Group: "db", Servers: []string{"postgres"}}}, Operators: []string{"gate"},
	}}
	base := func(more ...any) map[string]any {
		return claims(append([]any{"iss", "https://login.example.com", "sub", "8f3"}, more...)...)
	}
	for _, tt := range []struct {
		name   string
		claims map[string]any
		want   string
	}{
		{"a verified address", base("email", "kim@example.com", "email_verified", true), "kim@example.com"},
		{"verified, as Cognito says it", base("email", "kim@example.com", "email_verified", "true"), "kim@example.com"},
		{"an address without email_verified", base("email", "kim@example.com", "preferred_username", "kim"), "kim"},
		{"an address that is not verified", base("email", "kim@example.com", "email_verified", false), "8f3"},
		{"a verified text that is no address", base("email", "kim", "email_verified", true), "8f3"},
		{"a verified text with more than an address", base("email", "kim@example.com (not verified)", "email_verified", true), "8f3"},
		{"a user name that looks like an address", base("preferred_username", "sam@example.com"), "sam@example.com (not verified)"},
		{"a reserved user name", base("preferred_username", "sync"), "8f3"},
		{"a user name of another kind of agent", base("preferred_username", "token:ci"), "8f3"},
		{"a reserved address", base("email", "arn:a@b", "email_verified", true, "preferred_username", "arn:a"), "8f3"},
		{"a user name that reads like a reserved one", base("preferred_username", "Sync"), "8f3"},
		{"a user name with a space after a reserved one", base("preferred_username", "sync "), "8f3"},
		{"a user name that breaks a line", base("preferred_username", "kim\nsam"), "8f3"},
		{"an overlong user name", base("preferred_username", strings.Repeat("k", 300)), "8f3"},
		{"a user name that is too long with its mark", base("preferred_username", strings.Repeat("k", 240)+"@example.com"), "8f3"},
		{"a user name with a hidden character", base("preferred_username", "k\u200bim"), "8f3"},
		{"an address written backwards", base("email", "\u202ekim@example.com", "email_verified", true), "8f3"},
		{"a user name that is a number", base("preferred_username", 7), "8f3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := m.Person(tt.claims)
			if err != nil || p.Name != tt.want || p.Subject != "https://login.example.com 8f3" {
				t.Errorf("Person = %+v, %v; want %q", p, err, tt.want)
			}
		})
	}
	t.Run("groups that have a role, once", func(t *testing.T) {
		p, err := m.Person(base("groups", []any{"staff", "sales", "db", "staff", ""}))
		if d := cmp.Diff([]string{"staff", "db"}, p.Groups); d != "" || err != nil {
			t.Errorf("groups (-want +got):\n%s%v", d, err)
		}
	})
	t.Run("a text is one group, even with spaces", func(t *testing.T) {
		for claim, want := range map[string][]string{"gate": {"gate"}, "not gate": nil, "": nil} {
			p, err := m.Person(base("groups", claim))
			if d := cmp.Diff(want, p.Groups); d != "" || err != nil {
				t.Errorf("%q (-want +got):\n%s%v", claim, d, err)
			}
			a, err := m.Agent(base("groups", claim))
			if err != nil || (a.Rights.Role == identity.Operator) != (want != nil) {
				t.Errorf("%q: an access token's role is %v, %v", claim, a.Rights.Role, err)
			}
		}
	})
	t.Run("groups that are too many", func(t *testing.T) {
		for _, more := range [][]any{{"_claim_names", map[string]any{"groups": "src1"}}, {"hasgroups", true}} {
			if _, err := m.Person(base(more...)); !errors.Is(err, identity.ErrGroupsLeftOut) {
				t.Errorf("%v: %v", more, err)
			}
		}
		other := m
		other.AdminClaim = "roles"
		if _, err := other.Person(base("_claim_names", map[string]any{"groups": "src1"}, "hasgroups", true)); err != nil {
			t.Errorf("a claim that is not configured: %v", err)
		}
	})
	for name, bad := range map[string]map[string]any{
		"no subject":              claims("iss", "https://login.example.com"),
		"a reserved subject":      claims("iss", "https://login.example.com", "sub", "bootstrap"),
		"a token's subject":       claims("iss", "https://login.example.com", "sub", "token:ci"),
		"groups that are no list": base("groups", map[string]any{"a": true}),
	} {
		if p, err := m.Person(bad); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
}
