package catalog_test

import (
	"errors"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/require"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

func (w *fixture) syncServers(names ...string) catalog.Report {
	w.T.Helper()
	rep, err := w.Syncer.SyncServers(w.T.Context(), names)
	require.OK(w.T, err)
	return rep
}

// A sync of named servers loads only these, and the other servers stay as they are.
func TestSyncServers(t *testing.T) {
	w := rested(t, time.Minute)
	w.serve(map[string][]string{"a": {"x", "new"}, "b": {"y", "new"}, "c": {}})
	w.Kept = nil
	rep := w.syncServers("b", "unknown")
	wantEqual(t, "loaded", []string{"b"}, w.loads())
	if rep.Tools != 4 || rep.New != 1 || rep.Resting != 2 || !rep.Built {
		t.Errorf("the sync found %+v", rep.Totals)
	}
	if w.Kept != nil {
		t.Errorf("the sync ends the programs of all servers but %v", w.Kept)
	}
	if rep := w.syncServers("b"); rep.Built {
		t.Error("the sync of an unchanged server built a catalog")
	}
	if rep := w.syncServers(); rep.Tools != 4 || len(w.loads()) != 0 {
		t.Errorf("the sync of no server loaded %v and found %+v", w.loads(), rep.Totals)
	}
	w.sync()
	if len(w.Kept) != 3 {
		t.Errorf("a sync of all servers keeps %d", len(w.Kept))
	}
}

// Without a catalog to start from, a sync of named servers loads all servers.
func TestSyncServersWithoutBasis(t *testing.T) {
	for name, spoil := range map[string]func(w *fixture){
		"the catalog is gone":  func(w *fixture) { w.remove(catalog.CurrentKey) },
		"another process":      func(w *fixture) { w.Restart() },
		"the last sync failed": func(w *fixture) { w.failOnce() },
	} {
		t.Run(name, func(t *testing.T) {
			w := rested(t, time.Minute)
			spoil(w)
			if rep := w.syncServers("b"); rep.Tools != 3 || len(w.loads()) != 3 {
				t.Errorf("loaded %v, found %+v", w.loads(), rep.Totals)
			}
		})
	}
}

// failOnce runs a sync that fails, because a required server is down.
func (w *fixture) failOnce() {
	w.T.Helper()
	w.place(map[string]string{
		"a": here, "b": "https://b.example/mcp", "c": `https://c.example/mcp,"required":true`,
	})
	w.Server("c").Outcome = transient()
	if _, err := w.Syncer.Sync(w.T.Context()); !errors.Is(err, catalog.ErrRequired) {
		w.T.Fatalf("Sync = %v", err)
	}
	w.Server("c").Outcome = outcome.Outcome{}
}
