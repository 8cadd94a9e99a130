package token_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token/tokentest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// made returns the time at which the tests make their tokens.
func made() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

// Each promise of a [token.Store].
func TestStore(t *testing.T) {
	for name, holds := range map[string]func(*testing.T, *token.Store){
		"an unknown token is not found":                          missing,
		"a token comes back as it was put":                       roundTrip,
		"a write of an old rev is a conflict and stores nothing": staleRev,
		"a touch sets the last use and nothing else":             touch,
		"a write leaves the last use as it is":                   putKeepsTouch,
		"members of a newer program are kept":                    keepsUnknown,
	} {
		t.Run(name, func(t *testing.T) { holds(t, token.NewStore(new(documenttest.Store))) })
	}
}

func put(t *testing.T, s *token.Store, tok token.Token) token.Token {
	t.Helper()
	out, err := s.PutToken(t.Context(), tok)
	require.OK(t, err)
	return out
}

func want(t *testing.T, s *token.Store, tok token.Token) {
	t.Helper()
	got, err := s.Token(t.Context(), tok.ID)
	require.OK(t, err)
	if d := cmp.Diff(tok, got); d != "" {
		t.Errorf("Token (-want +got):\n%s", d)
	}
}

func missing(t *testing.T, s *token.Store) {
	tok, _ := tokentest.Sample(t, tokentest.Key(t), "ci")
	if _, err := s.Token(t.Context(), tok.ID); !errors.Is(err, token.ErrNotFound) {
		t.Errorf("Token = %v, want ErrNotFound", err)
	}
	if err := s.TouchToken(t.Context(), tok.ID, made()); !errors.Is(err, token.ErrNotFound) {
		t.Errorf("TouchToken = %v, want ErrNotFound", err)
	}
	if _, err := s.Token(t.Context(), tok.ID); !errors.Is(err, token.ErrNotFound) {
		t.Errorf("Token after TouchToken = %v, want ErrNotFound", err)
	}
	if all, err := s.Tokens(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("Tokens = %v, %v, want none", all, err)
	}
}

func roundTrip(t *testing.T, s *token.Store) {
	full, _ := tokentest.Sample(t, tokentest.Key(t), "ci")
	full = put(t, s, full.Revoke("sam", made().Add(time.Minute)))
	if full.Rev != 1 {
		t.Errorf("Rev = %d after the first write, want 1", full.Rev)
	}
	want(t, s, full)
	bare, _ := tokentest.Sample(t, tokentest.Key(t), "ci") // a second of the same name is another token
	bare.Servers, bare.Tiers, bare.Toolsets, bare.Admin = nil, nil, nil, false
	want(t, s, put(t, s, bare))
	want(t, s, full)
}

func staleRev(t *testing.T, s *token.Store) {
	first, _ := tokentest.Sample(t, tokentest.Key(t), "ci")
	first = put(t, s, first)
	revoked := put(t, s, first.Revoke("sam", made()))
	if _, err := s.PutToken(t.Context(), first); !errors.Is(err, token.ErrConflict) {
		t.Errorf("PutToken of rev 1 = %v, want ErrConflict", err)
	}
	want(t, s, revoked)
}

func touch(t *testing.T, s *token.Store) {
	tok, _ := tokentest.Sample(t, tokentest.Key(t), "ci")
	tok = put(t, s, tok)
	for _, at := range []time.Time{made().Add(time.Hour), made().Add(3*time.Hour + 5*time.Nanosecond)} {
		require.OK(t, s.TouchToken(t.Context(), tok.ID, at))
		tok.LastUsed = at
		want(t, s, tok)
	}
}

func putKeepsTouch(t *testing.T, s *token.Store) {
	tok, _ := tokentest.Sample(t, tokentest.Key(t), "ci")
	read := put(t, s, tok)
	at := made().Add(time.Hour)
	require.OK(t, s.TouchToken(t.Context(), tok.ID, at))
	revoked := put(t, s, read.Revoke("sam", made())) // read before the touch
	revoked.LastUsed = at
	want(t, s, revoked)
}

// A store that cannot be read is not an empty list.
func TestTokensUnreadable(t *testing.T) {
	var docs documenttest.Store
	s := token.NewStore(&docs)
	tok, _ := tokentest.Sample(t, tokentest.Key(t), "ci")
	put(t, s, tok)
	require.OK(t, docs.PutDocs(t.Context(), document.Doc{Key: document.Key{Part: "TOKENS", ID: "x"}, Data: []byte("{")}))
	if all, err := s.Tokens(t.Context()); err == nil {
		t.Errorf("Tokens = %+v", all)
	}
	if got, err := s.Token(t.Context(), "x"); err == nil || errors.Is(err, token.ErrNotFound) {
		t.Errorf("Token = %+v, %v", got, err)
	}
}

func keepsUnknown(t *testing.T, s *token.Store) {
	tok, _ := tokentest.Sample(t, tokentest.Key(t), "newer")
	tok.Format = token.Format + 1
	tok.Unknown = rawjson.Members{"resources": json.RawMessage(`["a<b",9007199254740993]`), "stop": json.RawMessage(`true`)}
	tok = put(t, s, tok)
	want(t, s, tok)
	if tok.Live(made()) {
		t.Error("a token of an unknown format is valid")
	}
	revoked := put(t, s, tok.Revoke("sam", made()))
	if d := cmp.Diff(tok.Unknown, revoked.Unknown); d != "" || revoked.Format != tok.Format {
		t.Errorf("format %d, want %d; unknown (-want +got):\n%s", revoked.Format, tok.Format, d)
	}
	want(t, s, revoked)
	require.OK(t, s.TouchToken(t.Context(), tok.ID, made()))
	revoked.LastUsed = made()
	want(t, s, revoked)
}
