package identity_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
)

// Two tokens have the same owner only if agent, issuer and sub are the same, even if these texts
// have separators.
func TestOwner(t *testing.T) {
	const iss = "https://login.example.com"
	seen := map[session.Owner]string{}
	hashes := map[[32]byte]string{}
	for _, c := range []map[string]any{
		{"azp": "ide"},
		{"azp": "ide", "sub": "ide"},
		{"azp": "ide", "sub": "ann"},
		{"azp": "ide", "sub": "bob"},
		{"azp": "ide", "sub": "ann", "iss": "https://other.example.com"},
		{"azp": "ide", "sub": "ann", "iss": nil},
		{"azp": "ide", "sub": iss + " ann", "iss": nil},
		{"azp": "ide", "sub": iss + " ann"},
		{"azp": "ide", "sub": "/x ann"},
		{"azp": "ide", "sub": "ann", "iss": iss + "/x"},
		{"azp": "ide", "sub": " ann"},
		{"azp": "ide " + iss + " ann"},
		{"azp": "ide " + iss, "sub": "ann"},
		{"azp": "ide\u00a0", "sub": "ann"},
		{"azp": `ide","ann`, "sub": "x"},
		{"azp": "ide", "sub": `ann","x`},
	} {
		all := map[string]any{"iss": iss}
		for name, value := range c {
			all[name] = value
		}
		a, err := identity.ClaimMap{ID: "azp"}.Agent(all)
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		owner, what := a.Owner(), c["azp"].(string)+", "+a.Subject
		if owner.Client != "" || (owner.User == "") != (a.Human == "") {
			t.Errorf("%s: %+v", what, owner)
		}
		hash := session.Hash(owner.Parts()...)
		if seen[owner] != hashes[hash] || seen[owner] != "" && a.Subject != "" {
			t.Errorf("%s and %s, %s have the same owner", what, seen[owner], hashes[hash])
		}
		seen[owner], hashes[hash] = what, what
	}
	if len(seen) != 15 { // the first two tokens have the same owner: a client without a user
		t.Errorf("%d owners, want 15", len(seen))
	}
}

// The owner of a caller includes exactly the fields that prove its identity, so that a token with
// other rights keeps the same state. Add each new field of Agent to one of the two lists here.
func TestOwnerFields(t *testing.T) {
	proves := []string{"ID", "Way", "Subject", "Human"}
	grants := []string{"Servers", "Tiers", "Toolsets", "Rights", "Claims"}
	kind := reflect.TypeFor[identity.Agent]()
	for i := range kind.NumField() {
		var a identity.Agent
		name, field := kind.Field(i).Name, reflect.ValueOf(&a).Elem().Field(i)
		if slices.Contains(proves, name) {
			field.SetString("x")
			if a.Owner() == (session.Owner{}) {
				t.Errorf("%s is not part of the owner", name)
			}
		} else if !slices.Contains(grants, name) {
			t.Errorf("%s is in neither list: is it part of the owner?", name)
		}
	}
	a := identity.Agent{ID: "ide", Way: identity.WayJWT, Subject: "https://login.example.com ann", Human: "ann"}
	if got, want := a.Owner(), (session.Owner{Way: "jwt", Agent: "ide", User: "https://login.example.com ann"}); got != want {
		t.Errorf("Owner = %+v, want %+v", got, want)
	}
	for _, a := range []identity.Agent{identity.Anonymous(), {ID: "token:ci", Way: identity.WayToken}, {ID: "arn:aws:iam::1:role/x", Way: identity.WayIAM}} {
		if got, want := a.Owner(), (session.Owner{Way: a.Way, Agent: a.ID}); got != want {
			t.Errorf("Owner = %+v, want %+v", got, want)
		}
	}
}
