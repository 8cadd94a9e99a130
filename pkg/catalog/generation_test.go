package catalog_test

import (
	"errors"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// earlierKey is the key of the generation before.
const earlierKey = "catalog/current.json"

// asBefore moves the catalog to the key of the generation before, as an earlier program left it.
func asBefore(t *testing.T, w *fixture) (file string) {
	t.Helper()
	file = read(t, w, catalog.CurrentKey)
	w.Put(earlierKey, file)
	w.remove(catalog.CurrentKey)
	return file
}

// After an upgrade, readers have the catalog of the earlier generation until the first sync writes
// their own. The sync leaves the earlier catalog as it is, with its shards, so earlier programs
// continue with it during the upgrade and after a return.
func TestEarlierGeneration(t *testing.T) {
	w := serving(t, "read")
	w.sync()
	before := asBefore(t, w)
	held, err := catalog.Load(t.Context(), w.Objects, nil)
	require.OK(t, err)
	if held.Len() != 1 {
		t.Fatalf("the new program reads %d tools of the earlier catalog, want 1", held.Len())
	}
	if again, err := catalog.Load(t.Context(), w.Objects, held); err != nil || again != held {
		t.Errorf("Load of an unchanged catalog = %p, %v; want the caller's catalog", again, err)
	}

	w.Serve("fs", "read", "write")
	if rep := w.sync(); rep.Tools != 2 || rep.New != 1 {
		t.Errorf("the first sync does not continue from the earlier catalog: %+v", rep)
	}
	now, err := catalog.Load(t.Context(), w.Objects, held)
	require.OK(t, err)
	if now.Len() != 2 || read(t, w, earlierKey) != before {
		t.Errorf(
			"after the sync: %d tools, and the earlier file is %s",
			now.Len(),
			read(t, w, earlierKey),
		)
	}
	w.remove(catalog.CurrentKey) // as an earlier program sees the store
	if old, err := catalog.Load(t.Context(), w.Objects, nil); err != nil ||
		old.SHA256() != held.SHA256() {
		t.Errorf("the earlier program reads %v, %v; want its catalog", old, err)
	}
}

// After a return, an earlier program can remove a shard that both files name. The next new program
// then has no catalog until a person deletes its outdated file: docs/operate.md has this step.
func TestUpgradeAfterReturn(t *testing.T) {
	w := serving(t, "read")
	w.sync()
	shared := w.load().Current().Shards[0].SHA256
	outdated := asBefore(t, w)
	w.Serve("fs", "read", "write")
	w.sync() // as the earlier program's sync
	asBefore(t, w)
	w.Put(catalog.CurrentKey, outdated)
	w.remove(catalog.Key(shared))
	if _, err := catalog.Load(t.Context(), w.Objects, nil); !errors.Is(err, catalog.ErrUnusable) {
		t.Errorf("Load of the outdated file = %v, want %v", err, catalog.ErrUnusable)
	}
	w.remove(catalog.CurrentKey)
	now, err := catalog.Load(t.Context(), w.Objects, nil)
	require.OK(t, err)
	if now.Len() != 2 {
		t.Errorf(
			"without the outdated file: %d tools, want the 2 of the earlier program",
			now.Len(),
		)
	}
}

// The failure of the first sync of a new program is stored with the catalog under the new key.
func TestFailureAfterEarlierGeneration(t *testing.T) {
	w := serving(t, "read")
	w.sync()
	before := asBefore(t, w)
	w.ConfigureOnly(map[string]string{"fs": "", "gone": `,"required":true`})
	w.Server("gone").Outcome = transient()
	if _, err := w.Syncer.Sync(t.Context()); !errors.Is(err, catalog.ErrRequired) {
		t.Fatalf("Sync = %v", err)
	}
	now, err := catalog.Load(t.Context(), w.Objects, nil)
	require.OK(t, err)
	if now.Len() != 1 || now.Current().Failed == nil || read(t, w, earlierKey) != before {
		t.Errorf(
			"%d tools, failure %+v; the earlier file is %s",
			now.Len(),
			now.Current().Failed,
			read(t, w, earlierKey),
		)
	}
}

// Without any catalog, a new program has none.
func TestNoGeneration(t *testing.T) {
	w := serving(t, "read")
	if _, err := catalog.Load(t.Context(), w.Objects, nil); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("Load = %v, want %v", err, object.ErrNotFound)
	}
}
