package catalog_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// other returns a Syncer of another process on the same stores, whose servers answer from lists.
func (w *fixture) other(lists map[string][]string) *catalog.Syncer {
	return catalog.NewSyncer(w.Objects, w.Approvals, listing(lists), &catalog.SyncOptions{Now: w.Clock.Now})
}

// once calls the function do during the next load, and not during later loads.
func (w *fixture) once(do func(ctx context.Context)) {
	w.After = func(ctx context.Context) {
		w.After = nil
		do(ctx)
	}
}

// overtake begins a sync of another process, and pauses this sync while it loads servers. The sync
// goes on and ends during the next load of the fixture's own sync.
func (w *fixture) overtake(earlier *gatewaytest.Servers) {
	began, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error)
	earlier.After = func(context.Context) { close(began); <-goOn }
	first := catalog.NewSyncer(w.Objects, w.Approvals, earlier, &catalog.SyncOptions{Now: w.Clock.Now})
	go func() {
		_, err := first.Sync(w.T.Context())
		done <- err
	}()
	<-began
	w.once(func(context.Context) {
		close(goOn)
		if err := <-done; err != nil {
			w.T.Error(err)
		}
	})
}

func TestSyncRace(t *testing.T) {
	w := serving(t, "read")
	w.sync()
	later := w.other(map[string][]string{"fs": {"read", "write"}})
	w.once(func(ctx context.Context) {
		if _, err := later.Sync(ctx); err != nil {
			t.Error(err)
		}
	})
	rep := w.sync()
	if !rep.Superseded {
		t.Errorf("report = %+v, want it superseded", rep)
	}
	wantState(t, w, "fs:read: approved", "fs:write: pending")
	if rep := w.sync(); rep.Superseded { // the superseded Syncer continues from the newer catalog
		t.Errorf("report = %+v", rep)
	}
	wantState(t, w, "fs:read: approved")
}

func TestSyncRaceInTheStore(t *testing.T) {
	w := servers(t, map[string][]string{"fs": {"read"}, "git": {"log"}})
	// The earlier sync pauses while it loads. Then the later sync begins, and the earlier sync
	// writes current.json first.
	w.overtake(listing(map[string][]string{"fs": {"read"}, "git": {"log", "push"}}))
	w.Server("git").Outcome = transient()
	rep := w.sync()
	if rep.Superseded || rep.Servers[1].Outcome.Status != "transient" {
		t.Errorf("report = %+v", rep)
	}
	// The later sync could not load git, and keeps git's tools from the catalog of the earlier
	// sync.
	wantState(t, w, "fs:read: approved", "git:log: approved", "git:push: approved")
}

// A scheduled sync keeps the results of another sync for the servers that it does not load.
func TestSyncDueRace(t *testing.T) {
	w := rested(t, 100*time.Hour)
	w.Clock.Wait(time.Minute)
	w.Decide("a:x", "disable")
	earlier := listing(map[string][]string{"a": {"x"}, "b": {"y"}, "c": {"z", "new"}})
	earlier.Server("b").Outcome = transient()
	w.overtake(earlier)
	w.Clock.Wait(time.Second)
	if rep := w.syncDue(); rep.Resting != 2 || rep.Superseded {
		t.Errorf("report = %+v", rep)
	}
	wantState(t, w, "a:x: approved", "b:y: approved", "c:new: pending", "c:z: approved")
	if b := w.load().Current().Outcomes[1]; b.Status != outcome.Transient {
		t.Errorf("outcome of a server that only the other sync asked: %+v", b)
	}
}

func TestSyncRaceOfConfigs(t *testing.T) {
	w := servers(t, map[string][]string{"fs": {"read"}, "git": {"log"}})
	// A sync whose clock is behind uses the new config and ends first. Its start time is earlier,
	// so if only times counted, the old config would win.
	behind := catalog.NewSyncer(w.Objects, w.Approvals, w.Servers, &catalog.SyncOptions{Now: func() time.Time { return day(1).Add(-time.Hour) }})
	w.once(func(ctx context.Context) {
		w.ConfigureOnly(map[string]string{"fs": ""})
		if _, err := behind.Sync(ctx); err != nil {
			t.Error(err)
		}
	})
	rep := w.sync()
	wantState(t, w, "fs:read: approved")
	if cur := w.load().Current(); cur.Config != rep.Config || len(rep.Servers) != 1 {
		t.Errorf("current %+v, report %+v", cur, rep)
	}
}

func TestSyncWriteWithALostAnswer(t *testing.T) {
	w := serving(t, "read")
	// If the answer to a write is lost, a driver writes again, and reports a conflict with its own
	// first write.
	w.Objects.OnPut = func(_ context.Context, key string, _ []byte) (bool, error) {
		if key == catalog.CurrentKey {
			return true, object.ErrConflict
		}
		return false, nil
	}
	rep := w.sync()
	if rep.Superseded || rep.Tools != 1 || rep.Snapshot != w.load().SHA256() {
		t.Errorf("report = %+v", rep)
	}
}

func TestSyncRaceWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // without the pauses between attempts
		w := serving(t)
		w.Objects.OnPut = func(_ context.Context, key string, _ []byte) (bool, error) {
			if key == catalog.CurrentKey {
				return false, object.ErrConflict
			}
			return false, nil
		}
		if _, err := w.Syncer.Sync(t.Context()); !errors.Is(err, object.ErrConflict) {
			t.Errorf("Sync = %v, want ErrConflict", err)
		}
	})
}

func TestDecisionDuringASync(t *testing.T) {
	w := newFixture(t)
	w.ConfigureOnly(map[string]string{"fs": `,"approval":"manual"`})
	w.Server("fs").Tools = []string{"read", "write"}
	w.sync()

	// A person disables a tool between the sync's reads and its write.
	w.Server("fs").Tools = []string{`{"name":"read","title":"new"}`, "write"}
	did := false
	w.Approvals.OnPut = func(ctx context.Context, r approval.Record) (bool, error) {
		if did || r.Tool != "read" {
			return false, nil
		}
		did = true
		current, err := w.Approvals.Get(ctx, r.ID())
		if err != nil {
			return false, err
		}
		next, e, err := approval.Disable(current, approval.Author{Actor: "ann", Note: "no"}, w.Clock.Now())
		if err != nil {
			return false, err
		}
		_, err = w.Approvals.Put(ctx, next, &e)
		return false, err
	}
	if rep := w.sync(); rep.Changed != 1 {
		t.Errorf("report = %+v", rep)
	}
	r := w.Record("fs:read")
	if !r.Disabled || string(r.Current) != `{"name":"read","title":"new"}` {
		t.Errorf("record = %+v, want it disabled, with the new definition", r)
	}
	if x := w.load().Tool(0); !x.Approval.Disabled || x.Approval.Rev != r.Rev {
		t.Errorf("record in the catalog = %+v", x.Approval)
	}
}

func TestDecisionWhileServersLoad(t *testing.T) {
	w := newFixture(t)
	w.ConfigureOnly(map[string]string{"fs": `,"approval":"manual"`})
	w.Server("fs").Tools = []string{"read"}
	w.sync()
	w.once(func(context.Context) { w.Decide("fs:read", "approve") })
	w.sync()
	wantState(t, w, "fs:read: approved")
}

// If a person decides after a sync has read the server's records, the decision is not in the
// catalog of this sync. Readers still find the decision, because it is newer than the catalog.
func TestDecisionWhileRecordsAreWritten(t *testing.T) {
	w := newFixture(t)
	w.ConfigureOnly(map[string]string{"fs": `,"approval":"manual"`})
	w.serve(map[string][]string{"fs": {"read", "write"}})
	w.sync()
	w.Server("fs").Tools = []string{"read", `{"name":"write","title":"new"}`}
	put := w.Approvals.OnPut
	w.Approvals.OnPut = func(context.Context, approval.Record) (bool, error) {
		w.Approvals.OnPut = put
		w.Decide("fs:read", "approve") // another process
		return false, nil
	}
	w.sync()
	wantState(t, w, "fs:read: pending", "fs:write: pending")
	since, err := approvaltest.AllChanges(t.Context(), w.Approvals, w.load().CreatedAt())
	require.OK(t, err)
	wantEqual(t, "decisions since the catalog was made", []approval.Decision{w.Record("fs:read").Decision()}, since)
	w.sync()
	wantState(t, w, "fs:read: approved", "fs:write: pending")
}

// A sync does not rely on its cache for records, because another process may have written them
// since. Here the other process saw another definition, and this sync changes the record back.
func TestRecordsOfAnotherSync(t *testing.T) {
	w := serving(t, "read")
	w.sync()
	if _, err := w.other(map[string][]string{"fs": {`{"name":"read","title":"new"}`}}).Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantState(t, w, "fs:read: changed")
	w.sync()
	wantState(t, w, "fs:read: approved")
	if r := w.Record("fs:read"); r.State != approval.Approved || r.Rev != 3 {
		t.Errorf("record is %s at rev %d, want approved at rev 3", r.State, r.Rev)
	}
}

func TestSyncCallersShareARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serving(t, "one")
		var mu sync.Mutex
		loads, atOnce, most := 0, 0, 0
		w.After = func(context.Context) {
			mu.Lock()
			loads++
			atOnce++
			most = max(most, atOnce)
			mu.Unlock()
			time.Sleep(time.Minute)
			mu.Lock()
			atOnce--
			mu.Unlock()
		}
		var wg sync.WaitGroup
		wg.Go(func() { w.sync() })
		synctest.Wait() // the first run is loading
		w.Server("fs").Tools = []string{"one", "two"}
		for range 5 {
			wg.Go(func() {
				rep, err := w.Syncer.Sync(t.Context())
				if err != nil || rep.Tools != 2 {
					t.Errorf("Sync = %d tools, %v; want the 2 tools that the server listed before the call", rep.Tools, err)
				}
			})
		}
		wg.Wait()
		if loads != 2 || most != 1 {
			t.Errorf("%d runs, %d at once; want 2, one at a time", loads, most)
		}
	})
}

func TestSyncCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serving(t, "one")
		w.After = func(ctx context.Context) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute):
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() { w.sync() })
		time.Sleep(time.Second)
		impatient, cancel := context.WithCancel(t.Context())
		time.AfterFunc(70*time.Second, cancel)
		var errs [2]error
		wg.Go(func() { _, errs[0] = w.Syncer.Sync(impatient) }) // this caller starts the second run, and gives up during the run
		time.Sleep(time.Second)
		wg.Go(func() { _, errs[1] = w.Syncer.Sync(t.Context()) })
		wg.Wait()
		if !errors.Is(errs[0], context.Canceled) || errs[1] != nil {
			t.Errorf("errors = %v, want context.Canceled and nil", errs)
		}
	})
}

func TestSyncWaitingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serving(t)
		w.After = func(context.Context) { time.Sleep(time.Minute) }
		var wg sync.WaitGroup
		wg.Go(func() { w.sync() })
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.Syncer.Sync(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Sync = %v, want the deadline", err)
		}
		wg.Wait()
	})
}
