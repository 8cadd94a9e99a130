package catalog_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/require"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// rested is a fixture whose servers have been unchanged for this time.
func rested(t *testing.T, since time.Duration) *fixture {
	w := newFixture(t)
	w.place(map[string]string{"a": here, "b": "https://b.example/mcp", "c": "https://c.example/mcp"})
	w.serve(map[string][]string{"a": {"x"}, "b": {"y"}, "c": {"z"}})
	w.Clock.Set(day(1), 0)
	w.sync()
	w.Clock.Wait(since)
	w.sync()
	return w
}

func (w *fixture) syncDue() catalog.Report {
	w.T.Helper()
	rep, err := w.Syncer.SyncDue(w.T.Context())
	require.OK(w.T, err)
	return rep
}

// The longer a server has been unchanged, the longer it is not loaded.
func TestSyncDueRests(t *testing.T) {
	for _, c := range []struct {
		since, ttl time.Duration
		rest       time.Duration
	}{
		{0, 0, 5 * time.Minute},
		{50 * time.Minute, 0, 5 * time.Minute},
		{time.Hour, 0, 10 * time.Minute},
		{2 * time.Hour, 0, 20 * time.Minute},
		{5 * time.Hour, 0, 40 * time.Minute},
		{8 * time.Hour, 0, time.Hour},
		{240 * time.Hour, 0, time.Hour},
		{0, 15 * time.Minute, 15 * time.Minute},
		{8 * time.Hour, 15 * time.Minute, time.Hour},
	} {
		t.Run(fmt.Sprint(c.since, " ", c.ttl), func(t *testing.T) {
			w := rested(t, c.since)
			for name := range w.ByName {
				w.Server(name).Outcome = outcome.Outcome{ListTTL: c.ttl}
			}
			w.sync()
			w.Clock.Wait(c.rest - time.Minute)
			if rep := w.syncDue(); rep.Resting != 3 || len(w.loads()) != 0 || rep.Tools != 3 || rep.Built || len(rep.Missing()) != 0 || rep.Servers[0].Kept {
				t.Errorf("after %v: %d skipped, loaded %v; %+v", c.rest-time.Minute, rep.Resting, w.loads(), rep.Servers[0])
			}
			if at := w.load().Current(); !at.SyncedAt.Equal(w.Clock.Now()) || len(at.Outcomes) != 3 || at.Outcomes[0].CheckedAt.Equal(at.SyncedAt) {
				t.Errorf("current.json: synced %v, outcomes %+v", at.SyncedAt, at.Outcomes)
			}
			w.Clock.Wait(time.Minute)
			if rep := w.syncDue(); rep.Resting != 0 || len(w.loads()) != 3 {
				t.Errorf("after %v: %d skipped, loaded %v", c.rest, rep.Resting, w.loads())
			}
		})
	}
}

// Events that cause a load of a server that has been unchanged for long.
func TestSyncDueAsks(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(w *fixture)
		want []string
		left []string // servers that left the config: the sync reads their records
	}{
		"nothing":    {do: func(*fixture) {}},
		"a decision": {func(w *fixture) { w.Decide("b:y", "disable") }, []string{"b"}, nil},
		"another config": {func(w *fixture) {
			w.place(map[string]string{"a": here, "b": "https://b.example/mcp"})
		}, []string{"a", "b"}, []string{"c"}},
		"a store that lost everything": {func(w *fixture) {
			w.Approvals = &approvaltest.Mem{Now: w.Clock.Now}
			w.Restart()
		}, []string{"a", "b", "c"}, nil},
		"a server that failed": {func(w *fixture) {
			w.Server("c").Outcome = transient()
			w.sync()
			w.Clock.Wait(time.Minute)
		}, []string{"c"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := rested(t, 100*time.Hour)
			w.syncDue()
			w.Clock.Wait(time.Minute)
			c.do(w)
			var mu sync.Mutex
			var read []string // servers whose records the sync reads
			w.Approvals.OnRecords = func(_ context.Context, server string) error {
				mu.Lock()
				defer mu.Unlock()
				read = append(read, server)
				return nil
			}
			rep := w.syncDue()
			w.Approvals.OnRecords = nil
			if slices.Sort(read); !slices.Equal(read, append(c.want, c.left...)) {
				t.Errorf("the sync read the records of %v, want %v and %v", read, c.want, c.left)
			}
			wantEqual(t, "loaded servers", c.want, w.loads())
			if rep.Tools != len(rep.Servers) {
				t.Errorf("%d tools of %d servers", rep.Tools, len(rep.Servers))
			}
			if name == "a decision" && !w.load().Tool(1).Approval.Disabled {
				t.Error("the catalog does not have the decision")
			}
			if w.sync(); len(w.loads()) != len(rep.Servers) {
				t.Errorf("a sync that a person requests loads %v", w.loads())
			}
		})
	}
}

// If a clock was ahead and is corrected, the next sync loads all servers, and its catalog has the
// decisions since.
func TestSyncAfterClockWasAhead(t *testing.T) {
	whole := func(w *fixture) { w.sync() }
	for name, c := range map[string]struct{ ahead, after func(*fixture) }{
		"single": {whole, func(w *fixture) { w.syncDue() }},
		"shared": {func(w *fixture) { w.mustShare(true) }, func(w *fixture) { w.mustShare(false) }},
		"assembly alone": {whole, func(w *fixture) {
			w.mustAssemble()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := rested(t, time.Hour)
			w.Clock.Set(day(1).AddDate(1, 0, 0), time.Second)
			c.ahead(w)
			w.Clock.Set(day(2), time.Second)
			w.Decide("b:y", "block")
			w.Server("c").Tools = []string{"z", "new"}
			w.Clock.Wait(time.Minute)
			c.after(w)
			s := w.load()
			if i, _ := s.Find(w.Record("b:y").ID()); s.Tool(i).Approval.State != approval.Blocked {
				t.Errorf("state of a blocked tool in the catalog = %s", s.Tool(i).Approval.State)
			}
			if c, _ := s.Server("c"); c.Tools != 2 && name != "assembly alone" || s.CreatedAt().After(w.Clock.Now()) {
				t.Errorf("%d tools of c, want 2; catalog created at %v", c.Tools, s.CreatedAt())
			}
		})
	}
}
