package state

import (
	"context"
	"fmt"
	"testing"
	"time"

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

// An index is a store that shows these decisions.
type index struct {
	approval.Store
	decided []approval.Decision
}

func (x index) Changes(context.Context, time.Time, string) ([]approval.Decision, string, error) {
	return x.decided, "", nil
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
		var src sources
		src.takeCatalog(snap, at(100))
		src.feed.Read(t.Context(), index{decided: []approval.Decision{tt.seen}}, at(100))
		if got := decide(newInventory(cfg, snap), src.feed.Decisions, false)[0]; got.userDisabled != tt.want || got.approved != lock.Yes {
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
