package token_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token/tokentest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestRegistry(t *testing.T) {
	store := token.NewStore(new(documenttest.Store))
	now, log := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), &local.Buffer{}
	r := &token.Registry{Store: store, Keys: token.OneKey(tokentest.Key(t)), Now: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(log, nil))}

	made, text, err := r.Make(t.Context(), "ann", token.Spec{Name: "ci", Servers: []string{"fs"}, Tiers: []string{"read"}, Days: 1})
	require.OK(t, err)
	if id, _ := tokentest.Key(t).Identify(text); id != made.ID || made.CreatedBy != "ann" || r.StatusAt(t.Context()).Status(made) != token.Live || !made.ExpiresAt.Equal(now.Add(24*time.Hour)) {
		t.Errorf("made %+v", made)
	}
	_, _, err = r.Make(t.Context(), "ann", token.Spec{Name: "a b", Tiers: []string{"root"}})
	fault, ok := errors.AsType[token.FaultError](err)
	for _, want := range []string{`name "a b"`, `tier "root"`, "365 days"} {
		if !ok || !strings.Contains(fault.Error(), want) {
			t.Errorf("an invalid token: %v, want it to name %s", err, want)
		}
	}
	now = now.Add(24 * time.Hour)
	if s := r.StatusAt(t.Context()).Status(made); s != token.Expired {
		t.Errorf("status %q after a day", s)
	}
	for range 2 {
		revoked, err := r.Revoke(t.Context(), "sam", made.ID)
		if err != nil || revoked.RevokedBy != "sam" || r.StatusAt(t.Context()).Status(revoked) != token.Revoked || !revoked.RevokedAt.Equal(now) {
			t.Errorf("revoked %+v, %v", revoked, err)
		}
	}
	if _, err := r.Revoke(t.Context(), "sam", "none"); !errors.Is(err, token.ErrNotFound) {
		t.Errorf("revoking none: %v", err)
	}
	if all, err := store.Tokens(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("the store has %v, %v", all, err)
	}
	if got := log.String(); strings.Count(got, "agent tokens changed") != 2 || !strings.Contains(got, "actor=sam") || strings.Contains(got, text.Reveal()) {
		t.Errorf("log: %s", got)
	}
}
