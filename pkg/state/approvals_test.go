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
)

func at(seconds int) time.Time { return time.Unix(1_800_000_000+int64(seconds), 0).UTC() }

func record(name string, rev int64, updated int) approval.Record {
	return approval.Record{Server: "s", Tool: name, Rev: rev, UpdatedAt: at(updated)}
}

func revs(o *overlay) map[string]int64 {
	out := map[string]int64{}
	for id, r := range o.records {
		out[id.Name] = r.Rev
	}
	return out
}

func TestAnOverlayTakesTheLatestRevisionInAnyOrder(t *testing.T) {
	all := []approval.Record{
		record("a", 1, 1), record("a", 2, 5), record("a", 3, 5), record("b", 1, 2), record("c", 7, 3), record("c", 8, 9),
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
		if !o.newest.Equal(at(9)) || !o.since().Equal(at(-1)) {
			t.Fatalf("newest %v, since %v", o.newest, o.since())
		}
		if again := o.apply(all); again != o {
			t.Fatal("applying the same records again made another overlay")
		}
	}
}

func TestAnEmptyFeedIsReadWhole(t *testing.T) {
	if since := (&overlay{}).since(); !since.IsZero() {
		t.Errorf("since %v, want the zero time", since)
	}
}

func snapshot(t *testing.T, feed int, records ...approval.Record) *catalog.Snapshot {
	t.Helper()
	in := catalog.Input{Feed: at(feed), Servers: []catalog.ServerInput{{Name: "s", Enabled: true}}}
	for _, r := range records {
		ti := catalog.ToolInput{Hash: "h", Record: &r}
		ti.Definition.Raw = []byte(fmt.Sprintf(`{"name":%q}`, r.Tool))
		ti.Definition.Name = r.Tool
		in.Servers[0].Tools = append(in.Servers[0].Tools, ti)
	}
	s, err := catalog.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestANewCatalogTakesOverWhatItHolds(t *testing.T) {
	var none *overlay
	o := none.rebase(snapshot(t, 100, record("a", 1, 90)))
	if !o.since().Equal(at(90)) {
		t.Errorf("a cold start asks since %v, want 10 s before the catalog's feed", o.since())
	}
	o = o.apply([]approval.Record{record("a", 2, 101), record("b", 1, 102), record("c", 1, 103), record("d", 1, 120)})
	// The next catalog has a at a later revision and b as it is held. It has no c and d: d
	// is too young for the feed to be sure of it.
	next := o.rebase(snapshot(t, 125, record("a", 3, 110), record("b", 1, 102)))
	if diff := cmp.Diff(map[string]int64{"d": 1}, revs(next)); diff != "" {
		t.Error(diff)
	}
	if !next.since().Equal(at(115)) {
		t.Errorf("since %v, want 10 s before the new feed", next.since())
	}
	// A catalog that holds an older revision does not win.
	next = o.rebase(snapshot(t, 105, record("a", 1, 90)))
	if next.records[record("a", 0, 0).ID()].Rev != 2 || !next.since().Equal(at(110)) {
		t.Errorf("overlay after an older catalog: %v, since %v", revs(next), next.since())
	}
	// One from before the overlay began needs what happened in between.
	next = o.rebase(snapshot(t, 50))
	if len(next.records) != 0 || !next.since().Equal(at(40)) {
		t.Errorf("overlay after a much older catalog: %v, since %v", revs(next), next.since())
	}
}

// An index can show an old revision of a record after the catalog was made from a new one.
func TestAnOldRevisionDoesNotWinOverTheCatalogs(t *testing.T) {
	cfg, err := config.Parse([]byte(`{"mcpServers": {"s": {"url": "https://s.example.com/mcp"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	disabled := record("a", 5, 100)
	disabled.Disabled, disabled.State, disabled.ApprovedHash, disabled.CurrentHash = true, approval.Approved, "h", "h"
	snap := snapshot(t, 100, disabled)
	earlier := disabled
	earlier.Rev, earlier.Disabled = 4, false
	later := disabled
	later.Rev, later.Disabled = 6, false
	for _, tt := range []struct {
		seen approval.Record
		want lock.Fact
	}{{earlier, lock.Yes}, {later, lock.No}} {
		o := (*overlay)(nil).rebase(snap).apply([]approval.Record{tt.seen})
		if got := standings(newOffer(cfg, snap), o, false)[0]; got.userDisabled != tt.want || got.approved != lock.Yes {
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
