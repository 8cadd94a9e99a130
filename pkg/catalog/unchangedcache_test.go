package catalog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// readStore records the servers whose records were read.
type readStore struct {
	*approvaltest.Mem
	mu   sync.Mutex
	read []string
}

func (s *readStore) RecordsIfChanged(ctx context.Context, server, mark string) ([]approval.Record, string, error) {
	all, now, err := s.Mem.RecordsIfChanged(ctx, server, mark)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.read = append(s.read, server)
	}
	return all, now, err
}

// take returns the servers since the last call.
func (s *readStore) take() []string {
	out := slices.Sorted(slices.Values(s.read))
	s.read = nil
	return out
}

// parsed returns the servers whose definitions the last sync parsed.
func (w *fixture) parsed() (ids []string) {
	for _, target := range w.Loaded {
		if target.Lists == "" {
			ids = append(ids, target.ID)
		}
	}
	return slices.Sorted(slices.Values(ids))
}

// A sync reads and parses no data of unchanged servers.
func TestUnchangedServersAreNotRead(t *testing.T) {
	w := newFixture(t)
	store := &readStore{Mem: w.Approvals}
	w.ConfigureOnly(map[string]string{"fs": "", "git": "", "mail": ""})
	w.serve(map[string][]string{"fs": {"read", "write"}, "git": {"log"}, "mail": {"send"}})
	w.Syncer = catalog.NewSyncer(w.Objects, store, w.Servers, &catalog.SyncOptions{Now: w.Clock.Now})
	all, none := []string{"fs", "git", "mail"}, []string(nil)
	for _, step := range []struct {
		name         string
		do           func()
		parsed, read []string
	}{
		{"the first", func() {}, all, all},
		{"the records of the first sync are new", func() {}, all, all},
		{"nothing", func() {}, none, none},
		{"a decision", func() { w.Decide("fs:read", "disable") }, none, []string{"fs"}},
		{"after it", func() {}, []string{"fs"}, []string{"fs"}},
		{"nothing again", func() {}, none, none},
		{"another text", func() { w.Server("git").Tools = []string{`{"name":"log","title":"new"}`} }, none, []string{"git"}},
		{"after the record of the other text was written", func() {}, []string{"git"}, []string{"git"}},
		{"no change after another text", func() {}, none, none},
		{"a server that fails", func() { w.Server("mail").Outcome = transient() }, none, []string{"mail"}},
		{"the server is back", func() { w.Server("mail").Outcome = outcome.Outcome{} }, []string{"mail"}, []string{"mail"}},
		{"no change after its return", func() {}, none, none},
		{"another config", func() { w.ConfigureOnly(map[string]string{"fs": "", "git": "", "mail": ""}, `"stop":{}`) }, all, all},
		{"no change after another config", func() {}, none, none},
		{"a store that was set back", func() { store.Mem = &approvaltest.Mem{Now: w.Clock.Now} }, none, all},
		{"after the records were restored", func() {}, all, all},
		{"at last", func() {}, none, none},
	} {
		step.do()
		w.sync()
		if got := w.parsed(); !slices.Equal(got, step.parsed) {
			t.Errorf("%s: the sync parsed definitions of %v, want %v", step.name, got, step.parsed)
		}
		if got := store.take(); !slices.Equal(got, step.read) {
			t.Errorf("%s: the sync read records of %v, want %v", step.name, got, step.read)
		}
	}
}

// After any events, a process with a cache makes the same catalog as a process without a cache, and
// as a distributed sync.
func TestUnchangedSyncEndsAsAnyOther(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	w := newFixture(t)
	names := []string{"a", "b", "c", "d"}
	tools := func() (list []string) {
		for i := range 1 + rng.IntN(4) {
			list = append(list, fmt.Sprintf(`{"name":"t%d","title":"%d"}`, i, rng.IntN(3)/2))
		}
		return list
	}
	configure := func(version int) {
		servers := map[string]string{}
		for _, name := range names {
			if servers[name] = ""; rng.IntN(6) == 0 {
				servers[name] = `,"enabled":false`
			}
		}
		if version%3 == 1 {
			delete(servers, names[1+rng.IntN(len(names)-1)])
		}
		w.ConfigureOnly(servers, fmt.Sprintf(`"words":{"a:*":["w%d"]}`, version%2))
	}
	for _, name := range names {
		w.Serve(name, tools()...)
	}
	configure(0)
	w.sync()
	for step := range 120 {
		what := "nothing"
		switch name := names[rng.IntN(len(names))]; rng.IntN(12) {
		case 0:
			what = name + " lists something else"
			w.Serve(name, tools()...)
		case 1:
			what = "a prompt of " + name
			w.Server(name).Prompts = []string{fmt.Sprintf(`{"name":"p%d"}`, rng.IntN(2))}
		case 2, 3:
			if s, ok := w.load().Server(name); ok && s.Tools > 0 {
				id, how := w.load().ID(s.First+rng.IntN(s.Tools)).String(), []string{"approve", "disable", "enable"}[rng.IntN(3)]
				what = how + " " + id
				w.Decide(id, how)
			}
		case 4:
			what = name + " fails"
			w.Server(name).Outcome = transient()
		case 5, 6:
			what = name + " is back"
			w.Server(name).Outcome = outcome.Outcome{}
		case 7:
			what = "another config"
			configure(step)
		}
		w.sync()
		got := w.load()
		syncer := w.Syncer
		w.Restart()
		w.shared = step%2 == 1
		rep, err := w.trySync()
		if w.Syncer, w.shared = syncer, false; err != nil {
			t.Fatal(err)
		}
		want := w.load()
		if rep.Snapshot != got.SHA256() || rep.New+rep.Changed+rep.NewItems+rep.ChangedItems > 0 {
			t.Fatalf("step %d, %s: the catalog is %s; a new process makes %s, with %d new and %d changed", step, what, got.SHA256(), rep.Snapshot, rep.New, rep.Changed)
		}
		a, b := got.Current(), want.Current()
		isSource := cmpopts.IgnoreFields(catalog.ServerState{}, "Found")
		if diff := cmp.Diff(b.Servers, a.Servers, isSource); diff != "" {
			t.Fatalf("step %d, %s: servers (-new process +cached):\n%s", step, what, diff)
		}
		if diff := cmp.Diff(b.Baselines, a.Baselines); diff != "" || a.Restored != b.Restored {
			t.Fatalf("step %d, %s: %d and %d restored, baselines (-new process +cached):\n%s", step, what, b.Restored, a.Restored, diff)
		}
		isTime := cmpopts.IgnoreFields(outcome.Outcome{}, "CheckedAt", "LoadedAt", "Duration")
		if diff := cmp.Diff(b.Outcomes, a.Outcomes, isTime); diff != "" {
			t.Fatalf("step %d, %s: outcomes (-new process +cached):\n%s", step, what, diff)
		}
	}
}
