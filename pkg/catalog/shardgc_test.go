package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/require"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
)

// restless returns a fixture with a server whose only tool gets another text by each call of
// change. stored returns the stored snapshots.
func restless(t *testing.T) (w *fixture, change func(text string), stored func() []string) {
	w = newFixture(t)
	w.ConfigureOnly(map[string]string{"fs": ""})
	snapshots := map[string]bool{}
	w.Objects.OnPut = func(_ context.Context, key string, _ []byte) (bool, error) {
		if strings.HasSuffix(key, ".snap") {
			snapshots[key] = true
		}
		return false, nil
	}
	w.Objects.OnDelete = func(_ context.Context, key string) error {
		if !snapshots[key] {
			t.Errorf("%q is deleted", key)
		}
		delete(snapshots, key)
		return nil
	}
	change = func(text string) {
		w.Server("fs").Tools = []string{fmt.Sprintf(`{"name":"read","description":%q}`, text)}
		w.sync()
	}
	return w, change, func() []string { return slices.Sorted(maps.Keys(snapshots)) }
}

// If a server changes its text at each sync, the number of snapshots is bounded. Processes lose no
// snapshot that they may still load.
func TestSuperseded(t *testing.T) {
	for _, tt := range []struct {
		name  string
		every time.Duration
		most  int
	}{
		{"each minute", time.Minute, 33},
		{"each quarter of an hour", 15 * time.Minute, 33},
		{"each hour", time.Hour, 25},
		{"each day", 25 * time.Hour, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, change, stored := restless(t)
			type reading struct {
				at  time.Time
				key string
			}
			var readings []reading
			for n := range 100 {
				change(fmt.Sprint("text ", n))
				cur := w.load().Current() // load fails if the object is gone
				readings = append(readings, reading{cur.SyncedAt, catalog.Key(cur.SHA256)})
				for _, r := range slices.Backward(readings) {
					if cur.SyncedAt.Sub(r.at) > 14*time.Minute {
						break
					}
					if !w.exists(r.key) {
						t.Fatalf("after %v a snapshot is gone", cur.SyncedAt.Sub(r.at))
					}
				}
				w.Clock.Wait(tt.every)
			}
			if got := len(stored()); got > tt.most || tt.every <= time.Hour && got < 24 {
				t.Errorf("%d snapshots are stored, want no more than %d", got, tt.most)
			}
		})
	}
}

func TestSupersededUnchanged(t *testing.T) {
	w, change, stored := restless(t)
	for range 5 {
		change("the same")
		w.Clock.Wait(25 * time.Hour)
	}
	if n := len(stored()); n != 1 || len(w.load().Current().Superseded) != 0 {
		t.Errorf("%d snapshots, superseded %v", n, w.load().Current().Superseded)
	}
}

// If a server is disabled and enabled again, its old snapshot is in use again and must stay.
func TestSupersededSnapshotComesBack(t *testing.T) {
	w, change, stored := restless(t)
	change("a")
	first := w.load().SHA256()
	for n := range 10 {
		w.ConfigureOnly(map[string]string{"fs": []string{`,"enabled":false`, ""}[n%2]})
		w.sync()
		w.Clock.Wait(25 * time.Hour)
		if s := w.load(); (s.SHA256() == first) != (n%2 == 1) {
			t.Fatalf("snapshot %d is %s, the first was %s", n, s.SHA256(), first)
		}
	}
	if n := len(stored()); n != 2 {
		t.Errorf("%d snapshots of two states are stored", n)
	}
}

func TestSupersededSnapshotNotRemovable(t *testing.T) {
	w, change, stored := restless(t)
	remove := w.Objects.OnDelete
	w.Objects.OnDelete = func(context.Context, string) error { return errStore }
	for n := range 3 {
		change(fmt.Sprint(n))
		w.Clock.Wait(25 * time.Hour)
	}
	if n := len(w.load().Current().Superseded); n != 2 || len(stored()) != 3 {
		t.Errorf("%d snapshots are listed, %d stored; want 2 and 3", n, len(stored()))
	}
	w.Objects.OnDelete = remove
	change("last")
	if n := len(w.load().Current().Superseded); n != 1 || len(stored()) != 2 {
		t.Errorf("%d snapshots are listed, %d stored; want 1 and 2", n, len(stored()))
	}
}

// A sync uses a superseded snapshot as the catalog again, while another sync deletes that snapshot.
func TestSupersededSnapshotRemovedInARace(t *testing.T) {
	w, change, _ := restless(t)
	change("a")
	first := w.load().SHA256()
	w.ConfigureOnly(map[string]string{"fs": `,"enabled":false`})
	w.sync()
	put := w.Objects.OnPut
	w.Objects.OnPut = func(ctx context.Context, key string, data []byte) (bool, error) {
		if key == catalog.CurrentKey {
			if err := w.Objects.Delete(ctx, catalog.Key(first)); err != nil {
				t.Error(err)
			}
		}
		return put(ctx, key, data)
	}
	change("a")
	w.ConfigureOnly(map[string]string{"fs": ""})
	w.sync()
	if got := w.load().SHA256(); got != first {
		t.Errorf("the catalog is %s, want %s", got, first)
	}
}

// A sync does not delete snapshots if another sync has moved the catalog in the meantime.
func TestSupersededByALateSync(t *testing.T) {
	w, change, stored := restless(t)
	change("a")
	change("b")
	w.Clock.Wait(25 * time.Hour)
	looks, late := 0, false
	w.Objects.OnGet = func(_ context.Context, key string) error {
		if key != catalog.CurrentKey {
			return nil
		}
		looks++
		switch looks {
		case 2: // at the check that the catalog has not moved
			late = true
			w.Put(catalog.CurrentKey, strings.Replace(read(t, w, catalog.CurrentKey), "{", "{ ", 1))
		case 4:
			late = false
		}
		return nil
	}
	remove := w.Objects.OnDelete
	w.Objects.OnDelete = func(ctx context.Context, key string) error {
		if late {
			t.Errorf("a sync with an old catalog removed %s", key)
		}
		return remove(ctx, key)
	}
	change("c")
	if w.load(); looks < 5 || len(stored()) != 2 {
		t.Errorf("%d checks of current.json, %d snapshots are stored; want at least 5 and 2",
			looks, len(stored()))
	}
}

// read returns an object without the hook of reads.
func read(t *testing.T, w *fixture, key string) string {
	t.Helper()
	hook := w.Objects.OnGet
	w.Objects.OnGet = nil
	defer func() { w.Objects.OnGet = hook }()
	o, err := w.Objects.Get(t.Context(), key, "")
	require.OK(t, err)
	return string(o.Data)
}

const fromTheFuture = `"format":2,"superseded":[],"later":{"n":[1,2]}`

// A sync of this version keeps unknown members that a newer program wrote to current.json.
func TestCurrentUnknownMembers(t *testing.T) {
	w := serving(t, "read")
	w.sync()
	w.Put(catalog.CurrentKey, strings.Replace(read(t, w, catalog.CurrentKey), `"format":2`, fromTheFuture, 1))
	holds := func(when string) {
		t.Helper()
		if got := read(t, w, catalog.CurrentKey); !strings.Contains(got, `"later":{"n":[1,2]}`) {
			t.Errorf("%s current.json is %s", when, got)
		}
	}
	w.sync()
	holds("after a sync")
	w.ConfigureOnly(map[string]string{"fs": "", "gone": `,"required":true`})
	w.Server("gone").Outcome = transient()
	if _, err := w.Syncer.Sync(t.Context()); !errors.Is(err, catalog.ErrRequired) {
		t.Fatalf("Sync = %v", err)
	}
	holds("after a sync that failed")
}

func TestCurrentOfANewerForm(t *testing.T) {
	w := serving(t, "read")
	w.sync()
	newer := strings.Replace(read(t, w, catalog.CurrentKey), `"format":2`, `"format":3`, 1)
	w.Put(catalog.CurrentKey, newer)
	if _, err := catalog.Load(t.Context(), w.Objects, nil); !errors.Is(err, catalog.ErrNewer) {
		t.Errorf("Load = %v, want %v", err, catalog.ErrNewer)
	}
	if _, err := w.Syncer.Sync(t.Context()); !errors.Is(err, catalog.ErrNewer) {
		t.Errorf("Sync = %v, want %v", err, catalog.ErrNewer)
	}
	if got := read(t, w, catalog.CurrentKey); got != newer {
		t.Errorf("current.json is %s", got)
	}
	old := strings.Replace(newer, `"format":3,`, ``, 1)
	w.Put(catalog.CurrentKey, old)
	if rep := w.sync(); rep.Tools != 1 {
		t.Errorf("a catalog without a format number: %+v", rep)
	}
}
