package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

var errStore = errors.New("store is down")

func TestRequiredServerDown(t *testing.T) {
	w := newFixture(t)
	w.ConfigureOnly(map[string]string{"fs": "", "git": `,"required":true`})
	w.serve(map[string][]string{"fs": {"read"}, "git": {"log"}})
	w.sync()
	before := w.load()

	w.Server("git").Outcome = outcome.Outcome{Status: outcome.Denied, Reason: "forbidden"}
	w.Server("fs").Tools = []string{`{"name":"read","description":"changed"}`}
	rep, err := w.Syncer.Sync(t.Context())
	if !errors.Is(err, catalog.ErrRequired) {
		t.Fatalf("Sync = %v, want ErrRequired", err)
	}
	if git := rep.Servers[1]; git.Outcome.Status != outcome.Denied || !git.Required || !git.Kept {
		t.Errorf("report of the required server = %+v", git)
	}
	after := w.load().Current()
	if len(after.Outcomes) != 2 || after.Outcomes[1].Status != outcome.Denied {
		t.Errorf("outcomes with the old catalog = %+v, want the outcomes of this sync",
			after.Outcomes)
	}
	after.Failed, after.Outcomes = nil, before.Current().Outcomes
	if diff := cmp.Diff(before.Current(), after); diff != "" {
		t.Errorf("the catalog has changed:\n%s", diff)
	}
	if r := w.Record("fs:read"); r.State != approval.Changed {
		t.Errorf("record of a changed tool of another server = %+v, want it locked", r)
	}

	w.ConfigureOnly(map[string]string{"fs": "", "git": `,"required":true,"enabled":false`})
	w.sync() // a disabled server need not load
}

func TestConfigRefused(t *testing.T) {
	w := serving(t, "read")
	good := w.sync()
	w.Put(config.Key, `{"mcpServers":{"git":{"url":"not a url","oops":1}}}`)
	for _, name := range []string{"same process", "new process"} {
		t.Run(name, func(t *testing.T) {
			rep := w.sync()
			if faults, ok := errors.AsType[config.Faults](rep.ConfigErr); !ok || len(faults) != 2 {
				t.Errorf("ConfigErr = %v, want both faults", rep.ConfigErr)
			}
			if rep.Config != good.Config {
				t.Errorf("config %s is in use, want the last good config", rep.Config)
			}
			wantState(t, w, "fs:read: approved")
		})
		w.Restart()
	}
	w.ConfigureOnly(map[string]string{"fs": "", "git": ""})
	if rep := w.sync(); rep.ConfigErr != nil || len(rep.Servers) != 2 {
		t.Errorf("the next good config is not in use: %+v", rep)
	}
}

func TestConfigMissing(t *testing.T) {
	for name, data := range map[string]string{"no file": "", "bad file": `{"mcpServers":{"a":1}}`} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			if data != "" {
				w.Put(config.Key, data)
			}
			rep, err := w.Syncer.Sync(t.Context())
			if err == nil || rep.ConfigErr == nil {
				t.Errorf("Sync = %v, ConfigErr = %v", err, rep.ConfigErr)
			}
			if w.exists(catalog.CurrentKey) || w.exists(catalog.ConfigFile.LastGood) {
				t.Error("something was stored")
			}
		})
	}
}

func TestSyncCanceled(t *testing.T) {
	w := serving(t, "read")
	ctx, cancel := context.WithCancel(t.Context())
	w.After = func(context.Context) { cancel() }
	if _, err := w.Syncer.Sync(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Sync = %v, want context.Canceled", err)
	}
	if w.exists(catalog.CurrentKey) {
		t.Error("a catalog was stored")
	}
	if _, err := w.Approvals.Get(t.Context(), gatewaytest.ID(t, "fs:read")); !errors.Is(err, approval.ErrNotFound) {
		t.Errorf("Get = %v, want no record", err)
	}
}

// failAt makes the n-th write from now fail, with or without effect. reached reports whether there
// was such a write.
func (w *fixture) failAt(n int, kept bool) (reached func() bool) {
	var mu sync.Mutex
	count := 0
	fail := func() (bool, error) {
		mu.Lock() // several units run at once
		defer mu.Unlock()
		count++
		if count == n {
			return kept, errStore
		}
		return false, nil
	}
	w.Objects.OnPut = func(context.Context, string, []byte) (bool, error) { return fail() }
	w.Approvals.OnPut = func(context.Context, approval.Record) (bool, error) { return fail() }
	w.Approvals.Documents.OnPut = func(context.Context, []document.Doc) (bool, error) { return fail() }
	return func() bool {
		w.Objects.OnPut, w.Approvals.OnPut, w.Approvals.Documents.OnPut = nil, nil, nil
		return count >= n
	}
}

// interruptEach fails the first, second, … write of a sync of a new fixture, with and without
// effect. It calls check after the next sync, in the same process and in a new process. A sync has
// at least the given number of writes.
func interruptEach(t *testing.T, least int, begin func(*testing.T) *fixture, check func(*testing.T, *fixture)) {
	for i := range 4 {
		kept, restart := i%2 == 1, i/2 == 1
		for n, more := 1, true; more; n++ {
			t.Run(fmt.Sprintf("write %d, kept %v, restart %v", n, kept, restart), func(t *testing.T) {
				w := begin(t)
				wasConsistent := w.consistent() == nil
				reached := w.failAt(n, kept)
				if _, err := w.Syncer.Sync(t.Context()); err != nil && !errors.Is(err, errStore) {
					t.Fatal(err)
				}
				if more = reached(); !more {
					if n <= least {
						t.Errorf("only %d writes were interrupted", n-1)
					}
					return
				}
				if err := w.consistent(); wasConsistent && err != nil {
					t.Errorf("after the failure: %v", err)
				}
				if restart {
					w.Restart()
				}
				w.sync()
				check(t, w)
			})
		}
	}
}

// consistent reports an inconsistency that readers would notice: a catalog that cannot be loaded,
// or one of its tools without a record.
func (w *fixture) consistent() error {
	s, err := catalog.Load(w.T.Context(), w.Objects, nil)
	if errors.Is(err, object.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range s.Len() {
		if _, err := w.Approvals.Get(w.T.Context(), s.ID(i)); err != nil {
			return err
		}
	}
	return nil
}

func TestSyncInterrupted(t *testing.T) {
	first := func(t *testing.T) *fixture {
		return servers(t, map[string][]string{"fs": {"read", "write"}, "git": {"log"}})
	}
	later := func(t *testing.T, w *fixture) {
		w.serve(map[string][]string{"fs": {"read", "write", "late"}, "git": {"log", "late"}})
		w.sync()
		got := w.state()
		for _, want := range []string{"fs:write: approved", "git:log: approved", "fs:late: pending", "git:late: pending"} {
			if !slices.Contains(got, want) {
				t.Errorf("want %q in %v", want, got)
			}
		}
	}
	interruptEach(t, 8, first, later)                 // three objects, three records and two baselines
	interruptEach(t, 5, func(t *testing.T) *fixture { // two objects and three records
		w := first(t)
		w.sync()
		w.serve(map[string][]string{"fs": {`{"name":"read","title":"new"}`, "write", "evil"}, "git": {"log", "evil"}})
		return w
	}, later)
}

func TestStoreUnreadable(t *testing.T) {
	for name, breakIt := range map[string]func(w *fixture){
		"catalog":   func(w *fixture) { w.Objects.OnGet = onKey(catalog.CurrentKey) },
		"approvals": func(w *fixture) { w.Approvals.OnRecords = func(context.Context, string) error { return errStore } },
		"baselines": func(w *fixture) {
			w.Approvals.OnDocs = documenttest.DocsOf("BASE#", func() error { return errStore })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := serving(t, "read")
			breakIt(w)
			if _, err := w.Syncer.Sync(t.Context()); !errors.Is(err, errStore) {
				t.Errorf("Sync = %v, want the store's error", err)
			}
			w.Objects.OnGet = nil
			if w.exists(catalog.CurrentKey) {
				t.Error("a catalog was stored")
			}
		})
	}
}

// onKey fails reads of one object.
func onKey(key string) func(context.Context, string) error {
	return func(_ context.Context, k string) error {
		if k == key {
			return errStore
		}
		return nil
	}
}
