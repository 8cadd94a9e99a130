package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// sharded returns the input of a catalog of n servers. Each server has two tools, and each shard
// has two servers.
func sharded(t testing.TB, n int) catalog.Input {
	in := catalog.Input{ShardTools: 4}
	for i := range n {
		s := catalog.ServerInput{Name: fmt.Sprintf("s%02d", i), Enabled: true}
		for _, name := range []string{"read", "write"} {
			s.Tools = append(s.Tools, define(t, fmt.Sprintf(`{"name":%q,"description":"It is of %s."}`, name, s.Name)))
		}
		in.Servers = append(in.Servers, s)
	}
	return in
}

// save builds a catalog from in, stores it, and returns it.
func save(t testing.TB, objects object.Store, in catalog.Input) *catalog.Snapshot {
	t.Helper()
	s, err := catalog.Save(t.Context(), objects, build(t, in), catalog.Current{StartedAt: day(1), SyncedAt: day(1)}, "")
	require.OK(t, err)
	return s
}

func TestLoadShards(t *testing.T) {
	store, keys := watched()
	in := sharded(t, 10)
	first := save(t, store, in)
	if n := len(first.Current().Shards); n != 5 {
		t.Fatalf("%d shards", n)
	}
	snap, err := catalog.Load(t.Context(), store, nil)
	require.OK(t, err)
	if len(*keys) != 6 || snap.SHA256() != first.SHA256() || snap.Len() != 20 {
		t.Errorf("Load read %d objects with %d tools, want 6 with 20, and the saved catalog", len(*keys), snap.Len())
	}

	*keys = nil
	in.Servers[5].Tools[0] = define(t, `{"name":"read","description":"Another one."}`)
	second := save(t, store, in)
	got, err := catalog.Load(t.Context(), store, snap)
	require.OK(t, err)
	wantEqual(t, "after a change of one server", []string{catalog.CurrentKey, catalog.Key(second.Current().Shards[2].SHA256)}, *keys)
	if i, ok := got.Find(define(t, `{"name":"read"}`).Definition.ID("s05")); !ok || got.Tool(i).Definition.Description != "Another one." || got.Len() != 20 {
		t.Errorf("tool %d is %+v", i, got.Tool(i))
	}
}

// If a Load runs out of time, the next Load keeps the shards that were read, and reads only the
// others.
func TestLoadingGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // here, time passes only while a read hangs
		store := &objecttest.Mem{}
		want := save(t, store, sharded(t, 40))
		slow, reads := false, 0
		var mu sync.Mutex
		store.OnGet = func(ctx context.Context, key string) error {
			if !strings.HasSuffix(key, ".snap") {
				return nil
			}
			mu.Lock()
			reads++
			wait := slow && reads%5 == 0
			mu.Unlock()
			if wait {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		slow = true
		var l catalog.Loading
		fetches := 0
		l.OnFetch = func() { fetches++ }
		attempts := 0
		for ; ; attempts++ {
			before := l.Read()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			got, err := l.Load(ctx, store, nil)
			cancel()
			if err == nil {
				if got.SHA256() != want.SHA256() || got.Len() != 80 {
					t.Errorf("got %s of %d tools", got.SHA256(), got.Len())
				}
				break
			}
			if !errors.Is(err, context.DeadlineExceeded) || l.Read() <= before || attempts > 20 {
				t.Fatalf("attempt %d: %v; %d shards were read before, %d now", attempts, err, before, l.Read())
			}
		}
		if attempts < 1 || fetches != attempts+1 || reads > 20+8*attempts {
			t.Errorf("%d attempts, %d calls of OnFetch, %d reads of 20 shards in all attempts", attempts+1, fetches, reads)
		}
		if l.Read() != 0 {
			t.Errorf("%d shards are kept after the load", l.Read())
		}
	})
}

// If a shard is unusable, a sync takes the tools of this shard's servers from their approval
// records. The tools of the other servers come from their shards.
func TestSyncWithoutAShard(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, w *fixture, key string){
		"missing": func(_ *testing.T, w *fixture, key string) { w.remove(key) },
		"damaged": func(t *testing.T, w *fixture, key string) { w.Put(key, read(t, w, key)[:100]) },
		"another": func(t *testing.T, w *fixture, key string) {
			w.Put(key, string(build(t, sharded(t, 1)).Encode()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			servers, lists := map[string]string{}, map[string][]string{}
			for _, s := range sharded(t, 6).Servers {
				servers[s.Name], lists[s.Name] = "", []string{"read", "write"}
			}
			w.ConfigureOnly(servers)
			w.serve(lists)
			w.sync()
			in := catalog.Input{ShardTools: 4}
			s := w.load()
			for _, server := range s.Servers() {
				in.Servers = append(in.Servers, catalog.ServerInput{Name: server.Name, Enabled: true, Same: true})
			}
			small, err := catalog.Rebuild(s, in)
			require.OK(t, err)
			parts, err := catalog.Save(t.Context(), w.Objects, small, s.Current(), etagOf(t, w))
			require.OK(t, err)
			listed := parts.Current().Shards
			if len(listed) != 3 {
				t.Fatalf("%d shards", len(listed))
			}
			w.Restart()
			reader := w.load()
			damage(t, w, catalog.Key(listed[1].SHA256))
			if _, err := catalog.Load(t.Context(), w.Objects, nil); !errors.Is(err, catalog.ErrUnusable) && name != "another" {
				t.Errorf("Load without a catalog in memory = %v, want ErrUnusable", err)
			}
			if again, err := catalog.Load(t.Context(), w.Objects, reader); err != nil || again != reader {
				t.Errorf("Load with the damaged catalog in memory = %v, want the same catalog", err)
			}
			for server := range servers { // no server answers, so all tools come from the shards or the records
				w.Server(server).Outcome = transient()
			}
			rep := w.sync()
			cur := w.load().Current()
			if diff := cmp.Diff([]string{"s02", "s03"}, cur.Rebuilt); diff != "" || rep.Tools != 12 {
				t.Errorf("servers whose tools come from records, in a catalog of %d tools; want 12 (-want +got):\n%s", rep.Tools, diff)
			}
			for i := range w.load().Len() {
				if w.load().Tool(i).Approval == nil {
					t.Errorf("%s has no record", w.load().ID(i))
				}
			}
		})
	}
}

// Format 1 of current.json has no list of shards: its snapshot is one shard. A program that knows
// only format 1 must recognize format 2 as newer, and not as damaged. So format 2 begins with its
// number, and the members that both formats have keep their names.
func TestCurrentForm1(t *testing.T) {
	w := serving(t, "read")
	w.sync()
	snap := w.load()
	cur := snap.Current()
	w.Put(catalog.CurrentKey, fmt.Sprintf(`{"format":1,"sha256":%q,"size":%d,"tools":1,"config":%q,"started_at":"2026-11-01T10:20:33Z","synced_at":"2026-11-01T10:20:33Z","stored_at":"2026-11-01T10:20:33Z","outcomes":[],"servers":[{"name":"fs","identity":%q}],"baselines":[%q]}`,
		cur.SHA256, cur.Size, cur.Config, cur.Servers[0].Identity, cur.Baselines[0]))
	old := w.load()
	if old.Len() != 1 || old.SHA256() != snap.SHA256() {
		t.Errorf("%d tools, %s", old.Len(), old.SHA256())
	}
	w.Restart()
	w.sync()
	text := read(t, w, catalog.CurrentKey)
	for _, part := range []string{`{"format":2,"sha256":"` + snap.SHA256() + `",`, `"shards":[{"sha256":"` + snap.SHA256() + `",`} {
		if !strings.Contains(text, part) {
			t.Errorf("current.json has no %s: %s", part, text)
		}
	}
	if strings.Contains(text, `],"stored_at"`) || strings.Contains(text, `"superseded"`) {
		t.Errorf("current.json keeps members of format 1: %s", text)
	}
}

func TestCurrentOfOtherShards(t *testing.T) {
	store := &objecttest.Mem{}
	s := save(t, store, sharded(t, 6))
	text, err := store.Get(t.Context(), catalog.CurrentKey, "")
	require.OK(t, err)
	sums := []string{}
	for _, part := range s.Current().Shards {
		sums = append(sums, part.SHA256)
	}
	if len(slices.Compact(sums)) != 3 {
		t.Fatalf("shards %q", sums)
	}
	for name, data := range map[string]string{
		"another shard":   strings.Replace(string(text.Data), sums[1], sums[0], 1),
		"another digest":  strings.Replace(string(text.Data), s.SHA256(), sums[0], 1),
		"no hash":         strings.Replace(string(text.Data), sums[1], "abc", 1),
		"no shards":       `{"format":2,"sha256":"` + s.SHA256() + `","shards":[]}`,
		"an invalid name": strings.Replace(string(text.Data), sums[1], strings.Repeat("../", 21)+"x", 1),
	} {
		_, err := store.Put(t.Context(), catalog.CurrentKey, []byte(data), "")
		require.OK(t, err)
		if _, err := catalog.Load(t.Context(), store, nil); !errors.Is(err, catalog.ErrUnusable) {
			t.Errorf("%s: Load = %v", name, err)
		}
	}
}
