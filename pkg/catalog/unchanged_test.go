package catalog_test

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

func TestUnchangedCatalogIsNotBuilt(t *testing.T) { bothWays(t, unchangedCatalogIsNotBuilt) }

func unchangedCatalogIsNotBuilt(w *fixture) {
	t := w.T
	w.ConfigureOnly(map[string]string{"fs": "", "git": ""})
	w.serve(map[string][]string{"fs": {`{"name":"read","description":"Reads."}`, "write"}, "git": {"log"}})
	for _, step := range []struct {
		name  string
		do    func()
		built bool
		want  []string
	}{
		{"the first", func() {}, true, []string{"fs:read: approved", "fs:write: approved", "git:log: approved"}},
		{"nothing", func() {}, false, nil},
		{"the same definition in another spelling", func() {
			w.Server("fs").Tools = []string{"write", `{ "description": "Reads.", "name": "read" }`}
		}, false, nil},
		{"a server that fails", func() { w.Server("git").Outcome = transient() }, false, nil},
		{"the server is back", func() { w.Server("git").Outcome = outcome.Outcome{} }, false, nil},
		{"another text", func() { w.Server("fs").Tools[1] = `{"name":"read","description":"Reads more."}` }, true,
			[]string{"fs:read: changed", "fs:write: approved", "git:log: approved"}},
		{"a decision", func() { w.Decide("fs:read", "approve") }, true, []string{"fs:read: approved", "fs:write: approved", "git:log: approved"}},
		{"nothing again", func() {}, false, nil},
		{"a tool that is gone", func() { w.Server("fs").Tools = w.Server("fs").Tools[:1] }, true, []string{"fs:write: approved", "git:log: approved"}},
		{"a tool instead of another", func() { w.Server("git").Tools = []string{"show"} }, true, []string{"fs:write: approved", "git:show: pending"}},
		{"a disabled server", func() { w.ConfigureOnly(map[string]string{"fs": "", "git": `,"enabled":false`}) }, true, nil},
		{"one more server", func() { w.ConfigureOnly(map[string]string{"fs": "", "git": `,"enabled":false`, "mail": ""}) }, true, nil},
		{"one less", func() { w.ConfigureOnly(map[string]string{"mail": ""}) }, true, nil},
		{"words of the operator", func() { w.ConfigureOnly(map[string]string{"mail": ""}, `"words":{"mail:*":["post"]}`) }, true, nil},
		{"the same words in another file", func() { w.ConfigureOnly(map[string]string{"mail": ""}, `"stop":{},"words":{"mail:*":["post"]}`) }, false, nil},
		{"other words", func() { w.ConfigureOnly(map[string]string{"mail": ""}, `"words":{"mail:*":["letter"]}`) }, true, nil},
		{"no words any more", func() { w.ConfigureOnly(map[string]string{"mail": ""}) }, true, nil},
		{"a new process", w.Restart, true, nil},
		{"and nothing", func() {}, false, nil},
	} {
		step.do()
		before := w.puts["snapshot"]
		rep := w.sync()
		if rep.Built != step.built || rep.Stored != (w.puts["snapshot"] > before) || !rep.Built && rep.Stored {
			t.Errorf("%s: built %t, stored %t; want built %t", step.name, rep.Built, rep.Stored, step.built)
		}
		if step.want != nil {
			wantState(t, w, step.want...)
		}
		if got := w.load().Current(); !got.StartedAt.Equal(rep.StartedAt) {
			t.Errorf("%s: current.json is of %v, want this sync's", step.name, got.StartedAt)
		}
	}
}

// A sync does not treat another process's catalog as its own, even if it equals the previous
// catalog.
func TestUnchangedCatalogOfAnotherProcess(t *testing.T) {
	w := serving(t, "read")
	w.sync()
	w.sync()
	other := catalog.NewSyncer(w.Objects, w.Approvals, w.Servers, &catalog.SyncOptions{Now: w.Clock.Now})
	w.Server("fs").Tools = []string{"read", "write"}
	if _, err := other.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rep := w.sync(); !rep.Built || rep.Tools != 2 {
		t.Errorf("after another process: %+v", rep)
	}
	if rep := w.sync(); rep.Built || w.Syncer.Catalog().Index().Len() != 2 {
		t.Errorf("second sync after another process: %+v", rep)
	}
}
