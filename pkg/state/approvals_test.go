package state

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

func at(seconds int) time.Time { return time.Unix(1_800_000_000+int64(seconds), 0).UTC() }

// revision returns a decision of the given revision, made at the given second.
func revision(name string, rev int64, decided int) approval.Decision {
	return approval.Decision{ID: tool.ID{Server: "s", Name: name}, Rev: rev, DecidedAt: at(decided)}
}

func revs(o *overlay) map[string]int64 {
	out := map[string]int64{}
	for id, d := range o.decisions {
		out[id.Name] = d.Rev
	}
	return out
}

func TestAnOverlayTakesTheLatestRevisionInAnyOrder(t *testing.T) {
	all := []approval.Decision{
		revision("a", 1, 1), revision("a", 2, 5), revision("a", 3, 5), revision("b", 1, 2), revision("c", 7, 3), revision("c", 8, 9),
	}
	want := map[string]int64{"a": 3, "b": 1, "c": 8}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		o := &overlay{}
		for n := 0; n < len(all); {
			step := min(1+rng.IntN(3), len(all)-n)
			o = o.apply(all[n : n+step])
			n += step
		}
		if diff := cmp.Diff(want, revs(o)); diff != "" {
			t.Fatal(diff)
		}
		if !o.newest.Equal(at(9)) {
			t.Fatalf("newest %v, want %v", o.newest, at(9))
		}
		if again := o.apply(all); again != o {
			t.Fatal("applying the same decisions again made another overlay")
		}
	}
}

// snapshot is a catalog that a sync made at the given second.
func snapshot(t *testing.T, made int, decisions ...approval.Decision) *catalog.Snapshot {
	t.Helper()
	in := catalog.Input{Servers: []catalog.ServerInput{{Name: "s", Enabled: true}}}
	for _, d := range decisions {
		def := tool.Definition{Raw: fmt.Appendf(nil, `{"name":%q}`, d.ID.Name), Name: d.ID.Name, Hash: "h"}
		in.Servers[0].Tools = append(in.Servers[0].Tools, catalog.ToolInput{Definition: def, Record: d.Over(nil)})
	}
	s, err := catalog.Build(in)
	if err == nil {
		s, err = catalog.Save(t.Context(), &objecttest.Mem{}, s, catalog.Current{StartedAt: at(made)}, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestANewCatalogTakesOverWhatItHolds(t *testing.T) {
	var h sources
	h.takeCatalog(snapshot(t, 100, revision("a", 1, 90)), at(101))
	if since := h.since(at(101)); !since.Equal(at(90)) {
		t.Errorf("a cold start asks since %v, want 10 s before the catalog was made", since)
	}
	h.overlay = h.overlay.apply([]approval.Decision{revision("a", 2, 101), revision("b", 1, 102), revision("c", 1, 103), revision("d", 1, 120)})
	h.readTo = at(121)
	for _, tt := range []struct {
		name  string
		next  *catalog.Snapshot
		want  map[string]int64
		since time.Time
	}{
		// It has no c and d: d is too young for the catalog to be sure of it.
		{"a later one", snapshot(t, 125, revision("a", 3, 110), revision("b", 1, 102)), map[string]int64{"d": 1}, at(115)},
		{"one that holds older revisions", snapshot(t, 105, revision("a", 1, 90)), map[string]int64{"a": 2, "b": 1, "c": 1, "d": 1}, at(111)},
		{"one from before the overlay began", snapshot(t, 50), map[string]int64{}, at(40)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := h
			h.takeCatalog(tt.next, at(126))
			if diff := cmp.Diff(tt.want, revs(h.overlay)); diff != "" {
				t.Error(diff)
			}
			if since := h.since(at(126)); !since.Equal(tt.since) {
				t.Errorf("since %v, want %v", since, tt.since)
			}
		})
	}
}

// An index can show an old revision of a record after the catalog was made from a new one.
func TestAnOldRevisionDoesNotWinOverTheCatalogs(t *testing.T) {
	cfg, err := config.Parse([]byte(`{"mcpServers": {"s": {"url": "https://s.example.com/mcp"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	disabled := revision("a", 5, 100)
	disabled.Disabled, disabled.State, disabled.ApprovedHash, disabled.CurrentHash = true, approval.Approved, "h", "h"
	snap := snapshot(t, 100, disabled)
	earlier := disabled
	earlier.Rev, earlier.Disabled = 4, false
	later := disabled
	later.Rev, later.Disabled = 6, false
	for _, tt := range []struct {
		seen approval.Decision
		want lock.Fact
	}{{earlier, lock.Yes}, {later, lock.No}} {
		o := (*overlay)(nil).rebase(snap).apply([]approval.Decision{tt.seen})
		if got := decide(newInventory(cfg, snap), o, false)[0]; got.userDisabled != tt.want || got.approved != lock.Yes {
			t.Errorf("with revision %d beside the catalog's 5: %+v", tt.seen.Rev, got)
		}
	}
}

func TestACacheForgetsWhenItIsFull(t *testing.T) {
	c := cache[int]{max: 3}
	made := 0
	for n := range 10 {
		got := c.get(fmt.Sprint(n), func() int { made++; return n })
		if again := c.get(fmt.Sprint(n), func() int { made++; return -1 }); got != n || again != n {
			t.Errorf("got %d, then %d; want %d", got, again, n)
		}
	}
	if made != 10 || len(c.entries) != 3 {
		t.Errorf("made %d, kept %d; want 10 and 3", made, len(c.entries))
	}
	c.get("", func() int { return 0 })
	c.get("", func() int { return 0 })
	if len(c.entries) != 3 {
		t.Error("a caller without a key is kept")
	}
}
