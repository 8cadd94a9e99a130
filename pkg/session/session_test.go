package session_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/secret"
	"github.com/portcullis-mcp/portcullis/pkg/session"
	"github.com/portcullis-mcp/portcullis/pkg/session/sessiontest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestMem(t *testing.T) {
	sessiontest.Run(t, func(*testing.T) session.Store { return new(sessiontest.Mem) })
}

// No two keys have one ID, wherever their parts hold what others part by.
func TestKeyIDs(t *testing.T) {
	agent := func(id string) session.Owner { return session.Owner{Agent: id} }
	seen := map[string]session.Key{}
	for _, k := range []session.Key{
		{},
		{Server: "s"},
		{URL: "s"},
		{Owner: agent("s")},
		{Server: "s", URL: "u", Owner: agent("a")},
		{Server: "s", URL: "u", Owner: session.Owner{Way: "jwt", Agent: "a"}},
		{Server: "s", URL: "u", Owner: session.Owner{Way: "iam", Agent: "a"}},
		{Server: "s", URL: "u", Owner: session.Owner{Way: "a"}},
		{Server: "s", URL: "u", Owner: session.Owner{Way: "jwt", Agent: "a", Client: "c"}},
		{Server: "s", URL: "u", Owner: session.Owner{Way: "jwt", Agent: "ac"}},
		{Server: "s", URL: "u", Owner: session.Owner{Way: "jwt", Client: "a"}},
		{Server: "su", Owner: agent("a")},
		{Server: "s", URL: "ua"},
		{Server: "s", URL: "u", Owner: agent("a#b")},
		{Server: "s#u", URL: "a", Owner: agent("b")},
		{Server: "s", URL: "u\x00a"},
		{Server: "s\x00u", URL: "a"},
		{Server: "s", URL: "u", Owner: agent("\x01a")},
		{Server: "s", URL: "u\x01", Owner: agent("a")},
		{Server: "s", URL: "u", Owner: agent(strings.Repeat("a", 300))},
	} {
		if other, ok := seen[k.ID()]; ok {
			t.Errorf("%q and %q have one ID", k, other)
		}
		seen[k.ID()] = k
		if again := k; len(k.ID()) != 64 || again.ID() != k.ID() {
			t.Errorf("ID of %q = %q, and %q the second time", k, k.ID(), again.ID())
		}
	}
}

func TestSessionDoesNotPrint(t *testing.T) {
	s := session.Session{ID: secret.New("3f1c-the-id"), Version: "2025-11-25"}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).InfoContext(t.Context(), "session", slog.Any("session", s), slog.Any("id", s.ID))
	data, err := json.Marshal(s)
	require.OK(t, err)
	if out := fmt.Sprintf("%v %+v %#v %s", s, s, s, s.ID) + log.String() + string(data); strings.Contains(out, "3f1c") {
		t.Errorf("it prints: %s", out)
	}
}
