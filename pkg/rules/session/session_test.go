package session_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Two keys never have the same ID, even if their parts contain separators.
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
		{Server: "s", URL: "u", Owner: session.Owner{Way: "jwt", Agent: "a", User: "c"}},
		{Server: "s", URL: "u", Owner: session.Owner{Way: "jwt", Agent: "a", User: "d"}},
		{Server: "s", URL: "u", Owner: session.Owner{Way: "jwt", Agent: "a", User: "d", Client: "c"}},
		{Server: "s", URL: "u", Owner: session.Owner{Way: "jwt", Agent: "a", User: "c", Client: "d"}},
		{Server: "s", URL: "u", Owner: session.Owner{Way: "jwt", Agent: "a\x00\x01c"}},
		{Server: "s", URL: "u", Owner: session.Owner{Way: "jwt", Agent: "a", Client: "\x01c"}},
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
			t.Errorf("%q and %q have the same ID", k, other)
		}
		seen[k.ID()] = k
		if again := k; len(k.ID()) != 64 || again.ID() != k.ID() {
			t.Errorf("ID of %q = %q, and %q the second time", k, k.ID(), again.ID())
		}
	}
}

// Every key of an owner depends on each field of the owner. A new field must be added to Parts.
func TestOwnerParts(t *testing.T) {
	hashes, ids := map[[32]byte]bool{}, map[string]bool{}
	kind := reflect.TypeFor[session.Owner]()
	for i := range kind.NumField() {
		var o session.Owner
		reflect.ValueOf(&o).Elem().Field(i).SetString("x")
		hashes[session.Hash(o.Parts()...)], ids[session.Key{Owner: o}.ID()] = true, true
	}
	if len(hashes) != kind.NumField() || len(ids) != kind.NumField() {
		t.Errorf("%d hashes and %d IDs of %d fields", len(hashes), len(ids), kind.NumField())
	}
	o := session.Owner{Way: "jwt", Agent: "a", User: "u", Client: "c"}
	if got, want := o.Caller(), (session.Owner{Way: "jwt", Agent: "a", User: "u"}); got != want {
		t.Errorf("Caller = %+v, want %+v", got, want)
	}
}

// For callers without a user, the ID of a key never changes. So the gateway finds sessions that an
// earlier version stored.
func TestStoredKeyIDs(t *testing.T) {
	for want, o := range map[string]session.Owner{
		"9c6d56622242531d97f4fe754723a58c859b03b316f20b47ed30c0788bfe9186": {},
		"000d48e8e06c11ad9cb280eb970ef72cc8e639cdfd215aa23dd2c6e080c0a8d8": {Way: "jwt", Agent: "a"},
		"2649c3e80cbeb5b93a4db787ff012ce1ae48e225f1d68ec78f74ff681675de85": {Way: "jwt", Agent: "a", Client: "c"},
	} {
		if got := (session.Key{Server: "s", URL: "u", Owner: o}).ID(); got != want {
			t.Errorf("ID of %+v = %s, want %s", o, got, want)
		}
	}
}

// All clients of an agent share one quota. If every caller counts as one agent, each client has its
// own quota.
func TestQuotaKey(t *testing.T) {
	key := func(way, agent, client string) string {
		return session.Owner{Way: way, Agent: agent, Client: client}.QuotaKey()
	}
	if key("jwt", "a", "1") != key("jwt", "a", "2") || key("jwt", "a", "1") == key("iam", "a", "1") || key("jwt", "a", "1") == key("jwt", "b", "1") {
		t.Error("two agents share a quota, or one agent has two")
	}
	anyone, err := identity.None{}.Authenticate(nil)
	require.OK(t, err)
	if key(anyone.Way, anyone.ID, "1") == key(anyone.Way, anyone.ID, "2") {
		t.Error("two clients of a gateway without credentials share a quota")
	}
}

func TestSessionDoesNotPrint(t *testing.T) {
	s := session.Session{ID: secret.New("3f1c-the-id"), Version: "2025-11-25"}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).InfoContext(t.Context(), "session", slog.Any("session", s), slog.Any("id", s.ID))
	data, err := json.Marshal(s)
	require.OK(t, err)
	if out := fmt.Sprintf("%v %+v %#v %s", s, s, s, s.ID) + log.String() + string(data); strings.Contains(out, "3f1c") {
		t.Errorf("the session prints its id: %s", out)
	}
}
