package signin_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// TestStore tests each promise of a [signin.Store].
func TestStore(t *testing.T) {
	for name, holds := range map[string]func(*testing.T, *signin.Store){
		"a session comes back as it was put":                     roundTrip,
		"a write of an old rev is a conflict and stores nothing": staleRev,
		"a deleted session stays deleted":                        deleted,
		"the form of a newer program is kept":                    keepsFormat,
	} {
		t.Run(name, func(t *testing.T) { holds(t, signin.NewStore(new(documenttest.Store), nil)) })
	}
}

// Get fails for an unreadable session, and List skips it. A session has expired even if the driver
// still has it.
func TestStoreOfOthers(t *testing.T) {
	docs := &documenttest.Store{Now: func() time.Time { return time.Now().Add(-time.Minute) }}
	st := signin.NewStore(docs, nil)
	require.OK(t, docs.PutDocs(t.Context(), document.Doc{Key: document.Key{Part: "LOGIN#SESSIONS", ID: "x"}, Data: []byte("{")}))
	over, live := put(t, st, sample(1, -time.Second)), put(t, st, sample(2, time.Hour))
	wantNone(t, st, over.ID)
	if all, err := st.List(t.Context()); err != nil || len(all) != 1 || all[0].ID != live.ID {
		t.Errorf("List = %+v, %v; want the live one", all, err)
	}
	if s, err := st.Get(t.Context(), "x"); err == nil || errors.Is(err, signin.ErrNotFound) {
		t.Errorf("Get = %+v, %v", s, err)
	}
}

// sample returns the nth session with this life.
func sample(n int, life time.Duration) signin.Session {
	now := time.Now().UTC().Round(0)
	return signin.Session{
		ID: fmt.Sprintf("%064x", n), Actor: "token:kim", Way: signin.WayToken, Token: fmt.Sprintf("%020x", n), Browser: "Mozilla/5.0 (é \"quoted\" <b>)", Subject: "https://login.example.com kim", Groups: []string{"db-team", "staff"},
		Created: now, Used: now.Add(time.Nanosecond), Expires: now.Add(life),
	}
}

func put(t *testing.T, st *signin.Store, s signin.Session) signin.Session {
	t.Helper()
	next, err := st.Put(t.Context(), s)
	require.OK(t, err)
	if next.Rev != s.Rev+1 {
		t.Errorf("Put = rev %d, want %d", next.Rev, s.Rev+1)
	}
	return next
}

func want(t *testing.T, st *signin.Store, s signin.Session) {
	t.Helper()
	got, err := st.Get(t.Context(), s.ID)
	require.OK(t, err)
	if d := cmp.Diff(s, got); d != "" {
		t.Errorf("Get (-want +got):\n%s", d)
	}
}

func wantNone(t *testing.T, st *signin.Store, id string) {
	t.Helper()
	if got, err := st.Get(t.Context(), id); !errors.Is(err, signin.ErrNotFound) {
		t.Errorf("Get = %+v, %v; want ErrNotFound", got, err)
	}
}

func conflict(t *testing.T, st *signin.Store, s signin.Session) {
	t.Helper()
	if _, err := st.Put(t.Context(), s); !errors.Is(err, signin.ErrConflict) {
		t.Errorf("Put of rev %d = %v, want ErrConflict", s.Rev, err)
	}
}

func roundTrip(t *testing.T, st *signin.Store) {
	first := put(t, st, sample(1, time.Hour))
	bare := sample(2, time.Hour)
	bare.Token, bare.Browser = "", ""
	bare = put(t, st, bare)
	want(t, st, first)
	want(t, st, bare)
	first.Used, first.Expires = first.Used.Add(5*time.Minute), first.Expires.Add(5*time.Minute)
	want(t, st, put(t, st, first))
	want(t, st, bare)
}

func staleRev(t *testing.T, st *signin.Store) {
	first := put(t, st, sample(1, time.Hour))
	second := put(t, st, first)
	conflict(t, st, first)
	want(t, st, second)
}

func deleted(t *testing.T, st *signin.Store) {
	s := put(t, st, sample(1, time.Hour))
	require.OK(t, st.Delete(t.Context(), s.ID))
	wantNone(t, st, s.ID)
	conflict(t, st, s) // of a request that read the session before
	wantNone(t, st, s.ID)
}

func keepsFormat(t *testing.T, st *signin.Store) {
	s := sample(1, time.Hour)
	s.Format = signin.Format + 1
	s = put(t, st, s)
	if s.Format != signin.Format+1 {
		t.Errorf("Put = form %d, want %d", s.Format, signin.Format+1)
	}
	want(t, st, s)
}
