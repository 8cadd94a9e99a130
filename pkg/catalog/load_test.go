package catalog_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// watched is a store that records the keys of its reads.
func watched() (*objecttest.Mem, *[]string) {
	var mu sync.Mutex
	var keys []string
	return &objecttest.Mem{OnGet: func(_ context.Context, key string) error {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, key)
		return nil
	}}, &keys
}

func TestLoad(t *testing.T) {
	store := &objecttest.Mem{}
	s := build(t, sample(t))
	cur := catalog.Current{
		Config: "v1", StartedAt: day(1), SyncedAt: day(2),
		Outcomes: []outcome.Outcome{{ServerID: "fs", Status: outcome.Denied, Reason: "forbidden", HTTPStatus: 403, CheckedAt: day(1)}},
	}
	saved, err := catalog.Save(t.Context(), store, s, cur, object.IfAbsent)
	require.OK(t, err)
	loaded, err := catalog.Load(t.Context(), store, nil)
	require.OK(t, err)
	cur.Format = catalog.Format
	cur.SHA256, cur.Size, cur.Tools = s.SHA256(), len(s.Encode()), s.Len()
	cur.Shards = []catalog.Shard{{SHA256: s.SHA256(), Size: cur.Size, Tools: cur.Tools, Items: s.Items() - s.Len(), First: "empty", StoredAt: cur.SyncedAt}}
	for _, got := range []*catalog.Snapshot{saved, loaded} {
		wantEqual(t, "current", cur, got.Current())
		if fs, _ := got.Server("fs"); fs.Outcome.HTTPStatus != 403 {
			t.Errorf("outcome = %+v", fs.Outcome)
		}
		if got.Len() != s.Len() || got.SHA256() != s.SHA256() {
			t.Errorf("%d tools, %s", got.Len(), got.SHA256())
		}
	}
	if again, err := catalog.Load(t.Context(), store, saved); err != nil || again != saved {
		t.Errorf("Load with the result of Save = %p, %v; want %p", again, err, saved)
	}
	if _, err := catalog.Save(t.Context(), store, s, cur, object.IfAbsent); !errors.Is(err, object.ErrConflict) {
		t.Errorf("second Save = %v, want ErrConflict", err)
	}
}

func TestLoadAgain(t *testing.T) {
	store, keys := watched()
	s, err := catalog.Save(t.Context(), store, build(t, sample(t)), catalog.Current{StartedAt: day(1)}, object.IfAbsent)
	require.OK(t, err)
	*keys = nil
	snap, err := catalog.Load(t.Context(), store, nil)
	require.OK(t, err)
	wantEqual(t, "cold", []string{catalog.CurrentKey, catalog.Key(s.SHA256())}, *keys)

	*keys = nil
	if again, err := catalog.Load(t.Context(), store, snap); err != nil || again != snap {
		t.Errorf("Load of an unchanged catalog = %p, %v; want the caller's catalog", again, err)
	}
	cur := s.Current()
	cur.Outcomes = []outcome.Outcome{{ServerID: "fs", Status: outcome.Transient}}
	put(t, store, cur, s)
	again, err := catalog.Load(t.Context(), store, snap)
	require.OK(t, err)
	if fs, _ := again.Server("fs"); fs.Outcome.Status != outcome.Transient {
		t.Errorf("outcome = %+v, want the new one", fs.Outcome)
	}
	if fs, _ := snap.Server("fs"); fs.Outcome.Status != "" {
		t.Error("the caller's snapshot has changed")
	}
	wantEqual(t, "reads", []string{catalog.CurrentKey, catalog.CurrentKey}, *keys)
}

// put stores s with cur as the current catalog, and replaces any other catalog.
func put(t *testing.T, store object.Store, cur catalog.Current, s *catalog.Snapshot) {
	t.Helper()
	if _, err := catalog.Save(t.Context(), store, s, cur, ""); err != nil {
		t.Fatal(err)
	}
}

func TestLoadErrors(t *testing.T) {
	good := build(t, sample(t))
	for name, tc := range map[string]struct {
		objects map[string]string
		want    error
	}{
		"nothing stored":    {nil, object.ErrNotFound},
		"no JSON":           {map[string]string{catalog.CurrentKey: "<html>"}, catalog.ErrUnusable},
		"no hash":           {map[string]string{catalog.CurrentKey: `{"sha256":"abc"}`}, catalog.ErrUnusable},
		"a path for a hash": {map[string]string{catalog.CurrentKey: `{"sha256":"` + strings.Repeat("../", 21) + `x"}`}, catalog.ErrUnusable},
		"snapshot missing":  {map[string]string{catalog.CurrentKey: `{"sha256":"` + good.SHA256() + `"}`}, catalog.ErrUnusable},
		"snapshot damaged": {map[string]string{
			catalog.CurrentKey:         `{"sha256":"` + good.SHA256() + `"}`,
			catalog.Key(good.SHA256()): string(good.Encode()[:100]),
		}, catalog.ErrUnusable},
	} {
		t.Run(name, func(t *testing.T) {
			store := &objecttest.Mem{}
			for key, data := range tc.objects {
				if _, err := store.Put(t.Context(), key, []byte(data), ""); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := catalog.Load(t.Context(), store, nil); !errors.Is(err, tc.want) || errors.Is(err, object.ErrNotFound) != errors.Is(tc.want, object.ErrNotFound) {
				t.Errorf("Load = %v, want %v alone", err, tc.want)
			}
		})
	}
}
