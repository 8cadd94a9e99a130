// Package sessiontest holds what tests of sessions need: [Run], the promises that
// every session.Store keeps, and [Mem], a working store in memory that fails on demand.
package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/secret"
	"github.com/portcullis-mcp/portcullis/pkg/session"
)

// A Mem is a [session.Store] in memory. The zero value is ready to use.
type Mem struct {
	Fail func(op string) error // asked before each Get, Put and Delete; nil: none fails

	mu   sync.Mutex
	kept map[string]session.Session
	ops  map[string]int
}

// Ops returns how often Get, Put and Delete were called.
func (m *Mem) Ops() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.ops)
}

// begin counts a call; the caller holds the lock.
func (m *Mem) begin(ctx context.Context, op string) error {
	if m.ops == nil {
		m.ops, m.kept = map[string]int{}, map[string]session.Session{}
	}
	m.ops[op]++
	if m.Fail != nil {
		if err := m.Fail(op); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// live returns what is kept and not over; the caller holds the lock.
func (m *Mem) live(k session.Key) (session.Session, bool) {
	s, ok := m.kept[k.ID()]
	return s, ok && s.Expires.After(time.Now())
}

// Get implements [session.Store].
func (m *Mem) Get(ctx context.Context, k session.Key) (session.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.begin(ctx, "Get"); err != nil {
		return session.Session{}, err
	}
	s, ok := m.live(k)
	if !ok {
		return session.Session{}, session.ErrNotFound
	}
	return s, nil
}

// Put implements [session.Store].
func (m *Mem) Put(ctx context.Context, k session.Key, s session.Session, old secret.Text) (session.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.begin(ctx, "Put"); err != nil {
		return session.Session{}, err
	}
	if kept, ok := m.live(k); ok && !kept.ID.Equal(s.ID) && !kept.ID.Equal(old) {
		return kept, session.ErrConflict
	}
	m.kept[k.ID()] = s
	return s, nil
}

// Delete implements [session.Store].
func (m *Mem) Delete(ctx context.Context, k session.Key, s session.Session) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.begin(ctx, "Delete"); err != nil {
		return err
	}
	kept, ok := m.kept[k.ID()]
	switch {
	case !ok || !kept.ID.Equal(s.ID):
	case kept.Expires.After(s.Expires):
		return session.ErrConflict
	default:
		delete(m.kept, k.ID())
	}
	return nil
}

// Run checks each promise that [session.Store] makes, one subtest a promise. open
// returns an empty store on the clock of this machine.
func Run(t *testing.T, open func(t *testing.T) session.Store) {
	for _, promise := range []struct {
		name  string
		check func(*testing.T, session.Store)
	}{
		{"what was never kept is not found", missing},
		{"a session comes back as it was put", roundTrip},
		{"an owner finds its own alone", owners},
		{"a first session stays against a second", first},
		{"a session is prolonged", prolong},
		{"a session that is gone is replaced by name", replace},
		{"one that expired is not found and gives way", expired},
		{"of racing instances one wins and all learn whose", racing},
		{"delete removes it once", deleteOnce},
		{"delete spares what was prolonged since", deleteSpares},
		{"delete spares another session", deleteOther},
		{"an ended context stores nothing", endedContext},
	} {
		t.Run(promise.name, func(t *testing.T) { promise.check(t, open(t)) })
	}
}

func key(agent string) session.Key {
	return session.Key{Server: "browser", URL: "https://browser.example.com/mcp", Owner: session.Owner{Agent: agent}}
}

// sample returns a session that lives for that long.
func sample(id string, life time.Duration) session.Session {
	return session.Session{ID: secret.New(id), Version: "2025-11-25", Expires: time.Now().Add(life).Truncate(time.Second).UTC()}
}

func put(t *testing.T, st session.Store, k session.Key, s session.Session, old string) {
	t.Helper()
	got, err := st.Put(t.Context(), k, s, secret.New(old))
	if err != nil || describe(got) != describe(s) {
		t.Fatalf("Put = %s, %v; want %s", describe(got), err, describe(s))
	}
}

// conflict checks that s is not put, since kept is there.
func conflict(t *testing.T, st session.Store, s session.Session, old string, kept session.Session) {
	t.Helper()
	got, err := st.Put(t.Context(), key("a"), s, secret.New(old))
	if !errors.Is(err, session.ErrConflict) || describe(got) != describe(kept) {
		t.Errorf("Put = %s, %v; want %s, ErrConflict", describe(got), err, describe(kept))
	}
	want(t, st, key("a"), kept)
}

// remove checks how deleting s ends.
func remove(t *testing.T, st session.Store, s session.Session, ends error) {
	t.Helper()
	if err := st.Delete(t.Context(), key("a"), s); !errors.Is(err, ends) {
		t.Errorf("Delete = %v, want %v", err, ends)
	}
}

func want(t *testing.T, st session.Store, k session.Key, s session.Session) {
	t.Helper()
	if got, err := st.Get(t.Context(), k); err != nil || describe(got) != describe(s) {
		t.Errorf("Get = %s, %v; want %s", describe(got), err, describe(s))
	}
}

func wantNone(t *testing.T, st session.Store, k session.Key) {
	t.Helper()
	if got, err := st.Get(t.Context(), k); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("Get = %s, %v; want ErrNotFound", describe(got), err)
	}
}

// describe returns all of s, the id in clear.
func describe(s session.Session) string {
	return fmt.Sprintf("{%s %s %d}", s.ID.Reveal(), s.Version, s.Expires.Unix())
}

func missing(t *testing.T, st session.Store) {
	wantNone(t, st, key("a"))
	remove(t, st, sample("x", time.Hour), nil)
}

func roundTrip(t *testing.T, st session.Store) {
	s := sample("!id~with#every/kind of:visible,character", time.Hour)
	s.Version = "2025-03-26"
	put(t, st, key("a"), s, "")
	want(t, st, key("a"), s)
}

func owners(t *testing.T, st session.Store) {
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

func first(t *testing.T, st session.Store) {
	a, b := sample("first", time.Hour), sample("second", 2*time.Hour)
	put(t, st, key("a"), a, "")
	conflict(t, st, b, "", a)
}

func prolong(t *testing.T, st session.Store) {
	put(t, st, key("a"), sample("x", time.Hour), "")
	longer := sample("x", 2*time.Hour)
	put(t, st, key("a"), longer, "")
	want(t, st, key("a"), longer)
}

func replace(t *testing.T, st session.Store) {
	put(t, st, key("a"), sample("gone", time.Hour), "")
	fresh := sample("fresh", time.Hour)
	put(t, st, key("a"), fresh, "gone")
	conflict(t, st, sample("late", time.Hour), "gone", fresh)
}

func expired(t *testing.T, st session.Store) {
	put(t, st, key("a"), sample("old", -time.Minute), "")
	wantNone(t, st, key("a"))
	fresh := sample("fresh", time.Hour)
	put(t, st, key("a"), fresh, "")
	want(t, st, key("a"), fresh)
}

func racing(t *testing.T, st session.Store) {
	const instances = 6
	got, errs := make([]session.Session, instances), make([]error, instances)
	var wg sync.WaitGroup
	for i := range instances {
		wg.Go(func() {
			got[i], errs[i] = st.Put(t.Context(), key("a"), sample(fmt.Sprint("by-", i), time.Hour), secret.Text{})
		})
	}
	wg.Wait()
	won := 0
	for i, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, session.ErrConflict) {
			t.Errorf("Put = %v, want ErrConflict", err)
		}
		want(t, st, key("a"), got[i])
	}
	if won != 1 {
		t.Errorf("%d instances won, want 1", won)
	}
}

func deleteOnce(t *testing.T, st session.Store) {
	s := sample("x", time.Hour)
	put(t, st, key("a"), s, "")
	for range 2 {
		remove(t, st, s, nil)
		wantNone(t, st, key("a"))
	}
}

func deleteSpares(t *testing.T, st session.Store) {
	s, longer := sample("x", time.Hour), sample("x", 2*time.Hour)
	put(t, st, key("a"), s, "")
	put(t, st, key("a"), longer, "")
	remove(t, st, s, session.ErrConflict)
	want(t, st, key("a"), longer)
}

func deleteOther(t *testing.T, st session.Store) {
	s := sample("x", time.Hour)
	put(t, st, key("a"), s, "")
	remove(t, st, sample("y", 2*time.Hour), nil)
	want(t, st, key("a"), s)
}

func endedContext(t *testing.T, st session.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := st.Put(ctx, key("a"), sample("x", time.Hour), secret.Text{}); err == nil {
		t.Error("Put = nil, want an error")
	}
	wantNone(t, st, key("a"))
}
