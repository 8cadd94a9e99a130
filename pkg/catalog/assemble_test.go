package catalog_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// If a shard is gone or damaged, an assembly rebuilds the catalog from the load results, with every
// decision. It loads no server.
func TestAssembleWithoutAShard(t *testing.T) {
	for name, harm := range map[string]func(w *fixture, key string){
		"gone":    func(w *fixture, key string) { w.remove(key) },
		"damaged": func(w *fixture, key string) { w.Put(key, "x") },
	} {
		t.Run(name, func(t *testing.T) {
			w := shared(t)
			w.Decide("a:x", "disable")
			w.mustShare(true)
			before := strings.Join(w.state(), ", ")
			for _, s := range w.load().Current().Shards {
				harm(w, "catalog/"+s.SHA256+".snap")
			}
			w.Restart()
			w.Loaded = nil
			rep, err := w.Syncer.Assemble(t.Context())
			if err != nil || len(w.loads()) > 0 {
				t.Errorf("Assemble = %+v, %v; loaded %v, want none", rep, err, w.loads())
			}
			if got := strings.Join(w.state(), ", "); got != before {
				t.Errorf("the catalog has %s, want %s", got, before)
			}
		})
	}
}

// Load results that arrive while an assembly runs get into a later catalog, even if the next
// assembly fails and stores only the outcomes.
func TestSharedNewsOverAFailure(t *testing.T) {
	w := newFixture(t)
	w.ConfigureOnly(map[string]string{"fs": "", "git": `,"required":true`})
	w.serve(map[string][]string{"fs": {"read"}, "git": {"log"}})
	w.sync()
	load := func(name string) { w.mustWork(catalog.Round{Began: w.Clock.Now()}, []string{name}) }
	w.Clock.Wait(time.Hour)
	w.Server("fs").Tools = []string{"read", "write"}
	w.once(func(context.Context) { w.mustAssemble() })
	load("fs")
	w.Server("git").Outcome = transient()
	load("git")
	if _, err := w.worker().Assemble(t.Context()); !errors.Is(err, catalog.ErrRequired) {
		t.Fatalf("Assemble = %v, want %v", err, catalog.ErrRequired)
	}
	w.Server("git").Outcome = outcome.Outcome{}
	load("git")
	w.mustAssemble()
	if got := w.load().Len(); got != 3 {
		t.Errorf("the catalog has %d tools, want 3", got)
	}
}

// If a server has a new URL and has not been loaded there, an assembly reports no outcome and no
// time for the server. So the server is due.
func TestAssembleServerAtAnotherURL(t *testing.T) {
	w := shared(t)
	w.Clock.Wait(100 * time.Hour)
	w.mustShare(true)
	w.Clock.Wait(20 * time.Minute) // less than the hour between loads of unchanged servers
	w.place(map[string]string{"a": here, "b": "https://other.example/mcp", "c": "https://c.example/mcp"})
	w.mustAssemble()
	for _, o := range w.load().Current().Outcomes {
		if o.ServerID == "b" {
			t.Errorf("outcome of a server that was not loaded at its new URL: %+v", o)
		}
	}
	if _, names, err := w.due(false); err != nil || len(names) != 1 || names[0] != "b" {
		t.Errorf("due = %v, %v; want b", names, err)
	}
	wantState(t, w, "a:x: approved", "a:y: approved", "b:z: approved", "c:u: approved")
}
