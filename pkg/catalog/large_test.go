package catalog_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
	"github.com/portcullis-mcp/portcullis/test/local"
)

// manyReal returns n real tools with unique names and words, approved.
func manyReal(t testing.TB, n int) catalog.Input {
	in := catalog.Input{}
	for name, tools := range local.Many(t, n) {
		s := catalog.ServerInput{Name: name, Enabled: true}
		for _, raw := range tools {
			x := define(t, string(raw))
			x.Record = &approval.Record{Server: name, Tool: x.Definition.Name, State: approval.Approved, ApprovedHash: x.Definition.Hash, CurrentHash: x.Definition.Hash, Rev: 1}
			s.Tools = append(s.Tools, x)
		}
		in.Servers = append(in.Servers, s)
	}
	return in
}

// BenchmarkOpenFolder measures how a process on a laptop reads and opens a catalog at its start.
func BenchmarkOpenFolder(b *testing.B) {
	store := dir.New(b.TempDir())
	s := save(b, store, manyReal(b, 10_000))
	b.ReportMetric(float64(s.Size()), "B")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := catalog.Load(b.Context(), store, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// In a catalog of two shards, a change of one server writes one object. A sync writes each object
// again when it is a day old, even if its process has not built the object.
func TestSyncWritesTheShardsThatChange(t *testing.T) {
	w := newFixture(t)
	w.ConfigureOnly(map[string]string{"a": `,"approval":"off"`, "b": `,"approval":"off"`})
	names := make([]string, 5_001)
	for i := range names {
		names[i] = fmt.Sprint("t", i)
	}
	w.serve(map[string][]string{"a": names, "b": slices.Clone(names)})
	puts := func(what string, want int, stored bool) {
		t.Helper()
		w.puts["snapshot"] = 0
		if rep := w.sync(); w.puts["snapshot"] != want || rep.Stored != stored || rep.Tools != 10_002 {
			t.Errorf("%s: %d shards are written, stored %v, %d tools; want %d", what, w.puts["snapshot"], rep.Stored, rep.Tools, want)
		}
	}
	puts("the first sync", 2, true)
	first := w.load().Current()
	if len(first.Shards) != 2 || first.Shards[0].First != "a" || first.Shards[1].First != "b" || first.Shards[1].Tools != 5_001 {
		t.Fatalf("shards %+v", first.Shards)
	}
	puts("nothing has changed", 0, false)
	w.Restart()
	puts("another process", 0, false)
	w.Clock.Wait(20 * time.Hour)
	w.Server("b").Tools[17] = `{"name":"t17","description":"Otherwise."}`
	puts("a tool of b", 1, true)
	cur := w.load().Current()
	if cur.Shards[0] != first.Shards[0] || cur.Shards[1].SHA256 == first.Shards[1].SHA256 || len(cur.Superseded) != 1 || cur.Superseded[0].SHA256 != first.Shards[1].SHA256 {
		t.Errorf("shards %+v, superseded %+v; they were %+v", cur.Shards, cur.Superseded, first.Shards)
	}
	w.Clock.Wait(5 * time.Hour)
	puts("a is a day old", 1, true)
	if again := w.load().Current(); !again.Shards[0].StoredAt.After(cur.Shards[0].StoredAt) || again.Shards[1] != cur.Shards[1] {
		t.Errorf("shards %+v; they were %+v", again.Shards, cur.Shards)
	}
	w.Clock.Wait(21 * time.Hour)
	w.sync()
	if w.exists(catalog.Key(first.Shards[1].SHA256)) || len(w.load().Current().Superseded) != 0 {
		t.Error("a shard that was superseded a day ago is still stored")
	}
}
