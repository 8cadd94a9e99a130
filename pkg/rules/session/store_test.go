package session_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Each promise of a [session.Store].
func TestStore(t *testing.T) {
	for name, holds := range map[string]func(*testing.T, *session.Store){
		"a session comes back as it was put":              roundTrip,
		"an owner finds only its own session":             owners,
		"a second session does not replace the first":     first,
		"a session is prolonged":                          prolong,
		"the id of a lost session replaces it":            replace,
		"an expired session is not found and is replaced": expired,
		"delete removes a session once":                   deleteOnce,
		"delete keeps a session that was prolonged":       deleteSpares,
		"delete keeps another session":                    deleteOther,
	} {
		t.Run(name, func(t *testing.T) { holds(t, session.NewStore(new(documenttest.Store))) })
	}
}

// If another session has replaced the session that an instance read, the instance neither replaces
// nor removes the new session.
func TestReadBefore(t *testing.T) {
	var docs documenttest.Store
	st := session.NewStore(&docs)
	old, fresh := sample("old", time.Hour), sample("fresh", time.Hour)
	swap := func() {
		docs.OnPut = nil
		require.OK(t, st.Delete(t.Context(), key("a"), old))
		put(t, st, key("a"), fresh, "")
	}
	put(t, st, key("a"), old, "")
	docs.OnPut = func(context.Context, []document.Doc) (bool, error) { swap(); return false, nil }
	if kept, err := st.Put(t.Context(), key("a"), old, secret.Text{}); !errors.Is(err, session.ErrConflict) || describe(kept) != describe(fresh) {
		t.Errorf("Put = %s, %v; want %s, ErrConflict", describe(kept), err, describe(fresh))
	}
	require.OK(t, st.Delete(t.Context(), key("a"), fresh))
	put(t, st, key("a"), old, "")
	docs.OnPut = func(context.Context, []document.Doc) (bool, error) { swap(); return false, nil }
	require.OK(t, st.Delete(t.Context(), key("a"), old))
	want(t, st, key("a"), fresh)
}

func key(agent string) session.Key {
	return session.Key{Server: "browser", URL: "https://browser.example.com/mcp", Owner: session.Owner{Agent: agent}}
}

// sample returns a session that is valid for this time.
func sample(id string, life time.Duration) session.Session {
	return session.Session{ID: secret.New(id), Version: "2025-11-25", Expires: time.Now().Add(life).Truncate(time.Second).UTC()}
}

func put(t *testing.T, st *session.Store, k session.Key, s session.Session, old string) {
	t.Helper()
	got, err := st.Put(t.Context(), k, s, secret.New(old))
	if err != nil || describe(got) != describe(s) {
		t.Fatalf("Put = %s, %v; want %s", describe(got), err, describe(s))
	}
}

// conflict checks that Put does not store s, because kept is stored.
func conflict(t *testing.T, st *session.Store, s session.Session, old string, kept session.Session) {
	t.Helper()
	got, err := st.Put(t.Context(), key("a"), s, secret.New(old))
	if !errors.Is(err, session.ErrConflict) || describe(got) != describe(kept) {
		t.Errorf("Put = %s, %v; want %s, ErrConflict", describe(got), err, describe(kept))
	}
	want(t, st, key("a"), kept)
}

// remove deletes s and checks the error.
func remove(t *testing.T, st *session.Store, s session.Session, ends error) {
	t.Helper()
	if err := st.Delete(t.Context(), key("a"), s); !errors.Is(err, ends) {
		t.Errorf("Delete = %v, want %v", err, ends)
	}
}

func want(t *testing.T, st *session.Store, k session.Key, s session.Session) {
	t.Helper()
	if got, err := st.Get(t.Context(), k); err != nil || describe(got) != describe(s) {
		t.Errorf("Get = %s, %v; want %s", describe(got), err, describe(s))
	}
}

func wantNone(t *testing.T, st *session.Store, k session.Key) {
	t.Helper()
	if got, err := st.Get(t.Context(), k); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("Get = %s, %v; want ErrNotFound", describe(got), err)
	}
}

// describe returns all of s, the id in clear.
func describe(s session.Session) string {
	return fmt.Sprintf("{%s %s %d}", s.ID.Reveal(), s.Version, s.Expires.Unix())
}

func roundTrip(t *testing.T, st *session.Store) {
	s := sample("!id~with#every/kind of:visible,character", time.Hour)
	s.Version = "2025-03-26"
	put(t, st, key("a"), s, "")
	want(t, st, key("a"), s)
}

func owners(t *testing.T, st *session.Store) {
	a, b := sample("of-a", time.Hour), sample("of-b", time.Hour)
	put(t, st, key("a"), a, "")
	wantNone(t, st, key("b"))
	put(t, st, key("b"), b, "")
	other := key("a")
	other.URL += "/v2"
	wantNone(t, st, other)
	for _, user := range []string{"https://login.example.com ann", "https://login.example.com bob"} {
		k, s := key("a"), sample("of-"+user, time.Hour)
		k.Owner.User = user
		wantNone(t, st, k)
		put(t, st, k, s, "")
		want(t, st, k, s)
	}
	want(t, st, key("a"), a)
	want(t, st, key("b"), b)
}

func first(t *testing.T, st *session.Store) {
	a, b := sample("first", time.Hour), sample("second", 2*time.Hour)
	put(t, st, key("a"), a, "")
	conflict(t, st, b, "", a)
}

func prolong(t *testing.T, st *session.Store) {
	put(t, st, key("a"), sample("x", time.Hour), "")
	longer := sample("x", 2*time.Hour)
	put(t, st, key("a"), longer, "")
	want(t, st, key("a"), longer)
}

func replace(t *testing.T, st *session.Store) {
	put(t, st, key("a"), sample("gone", time.Hour), "")
	fresh := sample("fresh", time.Hour)
	put(t, st, key("a"), fresh, "gone")
	conflict(t, st, sample("late", time.Hour), "gone", fresh)
}

func expired(t *testing.T, st *session.Store) {
	put(t, st, key("a"), sample("old", -time.Minute), "")
	wantNone(t, st, key("a"))
	fresh := sample("fresh", time.Hour)
	put(t, st, key("a"), fresh, "")
	want(t, st, key("a"), fresh)
}

func deleteOnce(t *testing.T, st *session.Store) {
	s := sample("x", time.Hour)
	put(t, st, key("a"), s, "")
	for range 2 {
		remove(t, st, s, nil)
		wantNone(t, st, key("a"))
	}
}

func deleteSpares(t *testing.T, st *session.Store) {
	s, longer := sample("x", time.Hour), sample("x", 2*time.Hour)
	put(t, st, key("a"), s, "")
	put(t, st, key("a"), longer, "")
	remove(t, st, s, session.ErrConflict)
	want(t, st, key("a"), longer)
}

func deleteOther(t *testing.T, st *session.Store) {
	s := sample("x", time.Hour)
	put(t, st, key("a"), s, "")
	remove(t, st, sample("y", 2*time.Hour), nil)
	want(t, st, key("a"), s)
}
