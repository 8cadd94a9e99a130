package signin_test

import (
	"errors"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A session from an issuer belongs to the person with its subject; their name does not matter. The
// session is valid only while the settings name this issuer and this client.
func TestSessionOfAnIssuer(t *testing.T) {
	const client = "https://login.example.com gate"
	person := func(name, sub string) signin.Person {
		return signin.Person{Actor: name, Way: signin.WayOIDC, Subject: "https://login.example.com " + sub, Groups: []string{"db-team"}}
	}
	begin := func(t *testing.T) *fixture {
		f := newFixture(t)
		f.options.Client = client
		return f.process()
	}
	t.Run("keeps subject and groups", func(t *testing.T) {
		f := begin(t)
		s, err := f.Find(t.Context(), f.open(person("kim", "1")))
		if err != nil || s.Subject != "https://login.example.com 1" || len(s.Groups) != 1 || s.Groups[0] != "db-team" {
			t.Errorf("Find = %+v, %v", s, err)
		}
	})
	t.Run("is not visible to another person of the same name", func(t *testing.T) {
		f := begin(t)
		one, again, other, owner := f.open(person("kim", "1")), f.open(person("kim@example.com", "1")), f.open(person("kim", "2")), f.open(kim)
		mine, err := f.Find(t.Context(), one)
		require.OK(t, err)
		theirs, err := f.Find(t.Context(), other)
		require.OK(t, err)
		if own, err := f.Own(t.Context(), mine); err != nil || len(own) != 2 {
			t.Errorf("Own = %+v, %v", own, err)
		}
		if err := f.Revoke(t.Context(), mine, theirs.ID); !errors.Is(err, signin.ErrNotFound) {
			t.Errorf("Revoke of another person's session = %v", err)
		}
		if n, err := f.RevokeOthers(t.Context(), mine); n != 1 || err != nil {
			t.Errorf("RevokeOthers = %d, %v", n, err)
		}
		if got := f.actors(one, again, other, owner); got != "kim,,kim,kim," {
			t.Errorf("valid sessions: %s", got)
		}
	})
	for name, setting := range map[string]string{"another issuer": "https://login.example.org gate", "another client": client + "2", "nobody": ""} {
		t.Run("ends with "+name+" in the settings", func(t *testing.T) {
			f := begin(t)
			cookie := f.open(person("kim", "1"))
			f.options.Client = setting
			if f.process().actor(cookie) != "" {
				t.Error("the session is valid")
			}
		})
	}
	t.Run("is invalid without a subject", func(t *testing.T) {
		f := begin(t)
		if cookie := f.open(signin.Person{Actor: "kim", Way: signin.WayOIDC}); f.actor(cookie) != "" {
			t.Error("the session is valid")
		}
	})
	t.Run("is invalid without an issuer in the settings", func(t *testing.T) {
		f := newFixture(t)
		if cookie := f.open(person("kim", "1")); f.actor(cookie) != "" {
			t.Error("the session is valid")
		}
	})
}
