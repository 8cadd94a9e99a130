// Package tokentest has tokens and a key for tests.
package tokentest

import (
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// made returns the time at which the tokens of the tests are made.
func made() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

// Sample returns a new token that any store may keep, and its text.
func Sample(t *testing.T, key token.Key, name string) (token.Token, secret.Text) {
	t.Helper()
	text := token.New()
	id, hash := key.Identify(text)
	s := token.Token{
		ID: id, Hash: hash, Name: name, Servers: []string{"files", "mail"}, Tiers: []string{"read", "write"}, Toolsets: []string{"files"},
		Admin: true, CreatedAt: made(), CreatedBy: "kim", ExpiresAt: made().Add(time.Hour),
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	return s, text
}

// Key returns a key for tests.
func Key(t testing.TB) token.Key {
	t.Helper()
	k, err := token.NewKey("a key that is for tests alone, of 32 bytes and more")
	if err != nil {
		t.Fatal(err)
	}
	return k
}
