package identity_test

import (
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

// An agent acts for a person if the token belongs to that person: the person signs in with the
// same issuer and sub. A token that a client got for itself belongs to no person.
func TestSubject(t *testing.T) {
	const iss = "https://login.example.com"
	byClient := identity.ClaimMap{ID: "client_id"}
	for name, tt := range map[string]struct {
		m              identity.ClaimMap
		claims         map[string]any
		subject, human string
	}{
		"a person":                        {identity.ClaimMap{}, claims("iss", iss, "sub", "8f3"), iss + " 8f3", ""},
		"a person and a client":           {identity.ClaimMap{}, claims("iss", iss, "sub", "8f3", "client_id", "ci", "azp", "ci"), iss + " 8f3", ""},
		"a client for a person":           {byClient, claims("iss", iss, "sub", "8f3", "client_id", "ci"), iss + " 8f3", "8f3"},
		"a client's own":                  {byClient, claims("iss", iss, "sub", "ci", "client_id", "ci"), "", ""},
		"a client's own, by sub":          {identity.ClaimMap{}, claims("iss", iss, "sub", "ci", "client_id", "ci"), "", ""},
		"a client's own, by azp":          {identity.ClaimMap{}, claims("iss", iss, "sub", "ci", "azp", "ci"), "", ""},
		"a client's own, as Okta's":       {identity.ClaimMap{}, claims("iss", iss, "sub", "ci", "cid", "ci"), "", ""},
		"a client's own, as Auth0's":      {byClient, claims("iss", iss, "sub", "ci@clients", "client_id", "ci", "azp", "ci", "gty", "client-credentials"), "", ""},
		"a client's own, as Entra's":      {identity.ClaimMap{ID: "azp"}, claims("iss", iss, "sub", "0c1", "azp", "ci", "idtyp", "app"), "", ""},
		"a person's, as Entra's":          {identity.ClaimMap{ID: "azp"}, claims("iss", iss, "sub", "8f3", "azp", "ci", "idtyp", "user"), iss + " 8f3", "8f3"},
		"no sub":                          {byClient, claims("iss", iss, "client_id", "ci"), "", ""},
		"no issuer":                       {identity.ClaimMap{}, claims("sub", "8f3"), "", ""},
		"an issuer that is a number":      {identity.ClaimMap{}, claims("iss", 7, "sub", "8f3"), "", ""},
		"the person of another issuer":    {identity.ClaimMap{}, claims("iss", iss+".evil.example", "sub", "8f3"), iss + ".evil.example 8f3", ""},
		"a name equal to the client's id": {byClient, claims("iss", iss, "sub", "8f3", "client_id", "ci", "preferred_username", "ci"), iss + " 8f3", "8f3"},
	} {
		a, err := tt.m.Agent(tt.claims)
		if err != nil || a.Subject != tt.subject || a.Human != tt.human {
			t.Errorf("%s: subject %q, human %q, %v; want %q and %q", name, a.Subject, a.Human, err, tt.subject, tt.human)
		}
		if a.Subject == "" {
			continue
		}
		if p, err := tt.m.Person(tt.claims); err != nil || p.Subject != a.Subject {
			t.Errorf("%s: the person who signs in is %q, %v; the agent's person is %q", name, p.Subject, err, a.Subject)
		}
	}
}

// The verifier refuses a token whose user cannot be stored. Without the user, two users of one
// agent id would count as one caller. A token that a client got for itself has no user.
func TestUnreadableUser(t *testing.T) {
	const iss = "https://login.example.com"
	m := identity.ClaimMap{ID: "client_id"}
	for name, c := range map[string]map[string]any{
		"a sub that is a number":       claims("iss", iss, "sub", 7, "client_id", "ci"),
		"a sub that is a list":         claims("iss", iss, "sub", []any{"8f3"}, "client_id", "ci", "azp", []any{"8f3"}),
		"a client's own sub, a number": claims("iss", iss, "sub", 7, "client_id", "ci", "gty", "client-credentials"),
		"a sub of two lines":           claims("iss", iss, "sub", "8f3\n9", "client_id", "ci"),
		"a sub that is too long":       claims("iss", iss, "sub", strings.Repeat("8", 257), "client_id", "ci"),
		"an issuer with a space":       claims("iss", iss+" x", "sub", "8f3", "client_id", "ci"),
	} {
		if a, err := m.Agent(c); err == nil || a.ID != "" {
			t.Errorf("%s: %+v, %v, want an error", name, a, err)
		}
	}
	if _, err := m.Person(claims("iss", iss+" x", "sub", "8f3")); err == nil {
		t.Error("a person signs in at an issuer with a space")
	}
}
