package catalog_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

// recordStates returns "tool: state" for each record of fs, with ", disabled" for a disabled tool.
func (w *fixture) recordStates() []string {
	w.T.Helper()
	records, err := w.Approvals.Records(w.T.Context(), "fs")
	require.OK(w.T, err)
	var out []string
	for _, r := range records {
		line := r.Tool + ": " + string(r.State)
		if r.Disabled {
			line += ", disabled"
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

func wantStates(t *testing.T, w *fixture, want ...string) {
	t.Helper()
	wantEqual(t, "records", want, w.recordStates())
}

// lose gives the fixture another store, as if an operator restored a table, and restarts the
// process that syncs.
func (w *fixture) lose(store *approvaltest.Mem) {
	w.Approvals = store
	w.Restart()
}

// lost returns a fixture of lockedAt that lost its store after the last sync.
func lost(t *testing.T) *fixture {
	w := lockedAt(t, here)
	w.sync()
	w.lose(&approvaltest.Mem{Now: w.Clock.Now})
	return w
}

// settle makes the decisions of the store or of the catalog apply, as how says, and returns the
// number of affected records.
func (w *fixture) settle(how catalog.Reconciler) int {
	w.T.Helper()
	settled, err := catalog.Reconcile(w.T.Context(), w.Approvals, w.load(), how, "ann", w.Clock.Now)
	require.OK(w.T, err)
	return len(settled)
}

var locked = []string{"moved: changed", "new: pending", "off: approved, disabled", "ok: approved"}

func TestRecover(t *testing.T) {
	w := lockedAt(t, here)
	w.sync()
	before := w.Record("fs:moved")
	w.lose(&approvaltest.Mem{Now: w.Clock.Now})
	w.Server("fs").Tools = append(w.Server("fs").Tools, "later")
	rep := w.sync()

	wantStates(t, w, append([]string{"later: pending"}, locked...)...)
	if rep.Recovered != 4 || w.load().Current().Restored != 4 {
		t.Errorf("%d records recovered, %d unsettled, want 4",
			rep.Recovered, w.load().Current().Restored)
	}
	r := w.Record("fs:moved")
	if r.Rev <= before.Rev || string(r.Approved) != string(before.Approved) || string(r.Current) != string(before.Current) || r.FirstSeen != before.FirstSeen {
		t.Errorf("record = %+v, before the loss %+v", r, before)
	}
	lines, err := w.Approvals.Audit(t.Context(), "fs", approval.Cursor{}, 100)
	n := len(slices.DeleteFunc(lines, func(e approval.Entry) bool { return e.Action != approval.ActionRecover }))
	if err != nil || n != 4 {
		t.Errorf("%d audit lines of the recovery, %v, want 4", n, err)
	}
	if rep := w.sync(); rep.Recovered != 0 || w.load().Current().Restored != 4 {
		t.Errorf("the next sync recovered %d records, %d are unsettled", rep.Recovered, w.load().Current().Restored)
	}
	if _, err := approval.NewBaselines(w.Approvals).Baseline(t.Context(), here, approval.Tools); err != nil {
		t.Errorf("the baseline is not back: %v", err)
	}
}

// A lost store can also have had data about a server that is no longer configured. Then the data
// about that server's tools is lost too, but current.json still says that the server had a first
// list. So a sync approves none of its tools automatically.
func TestBaselineOfALostStore(t *testing.T) {
	w := lockedAt(t, here)
	w.place(map[string]string{})
	w.sync()
	w.lose(&approvaltest.Mem{Now: w.Clock.Now})
	w.place(map[string]string{"fs": here})
	w.sync()
	wantStates(t, w, "moved: pending", "new: pending", "off: pending", "ok: pending")
}

// A definition that was blocked in the catalog or in the store stays blocked. This is true for a
// lost store, and for stores from before a block or an unblock, with either reconciliation.
func TestRecoverBlocked(t *testing.T) {
	for _, how := range []catalog.Reconciler{nil, approval.KeepRestored, approval.AcceptStore} {
		for name, lose := range map[string]func(w *fixture) *approvaltest.Mem{
			"lost": func(w *fixture) *approvaltest.Mem {
				w.Decide("fs:ok", "block")
				return &approvaltest.Mem{Now: w.Clock.Now}
			},
			"lost, while the server lists another definition": func(w *fixture) *approvaltest.Mem {
				w.Decide("fs:ok", "block")
				w.Server("fs").Tools = []string{`{"name":"ok","title":"other"}`}
				return &approvaltest.Mem{Now: w.Clock.Now}
			},
			"set back to before the block": func(w *fixture) *approvaltest.Mem {
				yesterday := w.Approvals.Copy()
				w.Decide("fs:ok", "block")
				return yesterday
			},
			"set back to before the unblock": func(w *fixture) *approvaltest.Mem {
				w.Decide("fs:ok", "block")
				yesterday := w.Approvals.Copy()
				w.Decide("fs:ok", "unblock")
				return yesterday
			},
		} {
			w := lockedAt(t, here+`,"approval":"off"`)
			store := lose(w)
			w.sync()
			w.lose(store)
			w.sync()
			if how != nil {
				w.settle(how)
			}
			w.Server("fs").Tools = []string{"ok"}
			w.sync()
			r := w.Record("fs:ok")
			if r.State != approval.Blocked || len(r.Blocked) != 1 || r.Blocked[0].By != "ann" {
				t.Errorf("%s: %s, blocked %+v", name, r.State, r.Blocked)
			}
		}
	}
}

// If an operator restores yesterday's table, the stricter of the table and the catalog applies.
func TestRecoverStricterOfTwo(t *testing.T) {
	w := newFixture(t)
	w.place(map[string]string{"fs": here})
	w.Server("fs").Tools = []string{"same", "shut", "opened"}
	w.sync()
	w.Decide("fs:opened", "disable")
	w.Server("fs").Tools = []string{"same", "shut", "opened", "allowed", "came"}
	w.sync()
	yesterday := w.Approvals.Copy()
	w.Decide("fs:shut", "disable")
	w.Decide("fs:opened", "enable")
	w.Decide("fs:allowed", "approve")
	w.Server("fs").Tools = append(w.Server("fs").Tools, "later")
	w.sync()
	today := []string{"allowed: approved", "came: pending", "later: pending", "opened: approved", "same: approved", "shut: approved, disabled"}
	wantStates(t, w, today...)

	for _, test := range []struct {
		name string
		how  catalog.Reconciler
		n    int
		want []string
	}{
		{"nobody settles it", nil, 4, []string{"allowed: pending", "came: pending", "later: pending", "opened: approved, disabled", "same: approved", "shut: approved, disabled"}},
		{"the catalog's version applies", approval.KeepRestored, 0, today},
		{"the store's version applies", approval.AcceptStore, 0, []string{
			"allowed: pending", "came: pending", "later: pending", "opened: approved, disabled", "same: approved", "shut: approved",
		}},
	} {
		for _, synced := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, synced before %v", test.name, synced), func(t *testing.T) {
				w := w.with(t, w.Objects.Copy())
				w.lose(yesterday.Copy())
				if synced || test.how == nil {
					w.sync()
				}
				if test.how != nil {
					if n := w.settle(test.how); n != 4 {
						t.Errorf("%d records were settled, want 4", n)
					}
				}
				wantStates(t, w, test.want...)
				w.sync()
				wantStates(t, w, test.want...)
				if n := w.load().Current().Restored; n != test.n {
					t.Errorf("%d records are unsettled, want %d", n, test.n)
				}
			})
		}
	}
}

func TestRecoverInterrupted(t *testing.T) {
	// four records, a baseline, the catalog
	interruptEach(t, 6, lost, func(t *testing.T, w *fixture) { wantStates(t, w, locked...) })
}

func TestRecoverRace(t *testing.T) {
	w := lost(t)
	other := catalog.NewSyncer(w.Objects, w.Approvals, w.Servers, &catalog.SyncOptions{Now: w.Clock.Now})
	var begun atomic.Bool // records are written in parallel
	w.Approvals.OnPut = func(ctx context.Context, _ approval.Record) (bool, error) {
		if begun.CompareAndSwap(false, true) { // the other sync runs between the read and the first write of this sync
			if _, err := other.Sync(ctx); err != nil {
				t.Error(err)
			}
		}
		return false, nil
	}
	w.sync()
	wantStates(t, w, locked...)
	lines, err := w.Approvals.Audit(t.Context(), "fs", approval.Cursor{}, 100)
	if err != nil || len(lines) != 4 {
		t.Errorf("audit = %+v, %v, want one line for each tool", lines, err)
	}
}

// If the catalog is unusable while a server is down, the server's tools come from their records.
// TestSyncWithoutAShard has other damages.
func TestRebuildFromRecords(t *testing.T) {
	w := newFixture(t)
	w.place(map[string]string{"fs": here, "git": there, "old": "https://old.example.com/mcp"})
	w.lock()
	w.Server("git").Tools = []string{"log"}
	w.Server("old").Tools = []string{"ask"}
	w.sync()
	w.place(map[string]string{"fs": here, "git": there, "old": `https://old.example.com/mcp,"enabled":false`})
	w.Server("fs").Outcome = transient()
	key := catalog.Key(w.load().SHA256())
	data := []byte(read(t, w, key))
	data[4] = 0x7F // another version of the format
	w.Put(key, string(data))
	w.Restart()
	for range 2 {
		w.sync()
		wantState(t, w, "fs:moved: changed", "fs:new: pending", "fs:off: approved", "fs:ok: approved", "git:log: approved", "old:ask: approved")
		wantEqual(t, "rebuilt", []string{"fs"}, w.load().Current().Rebuilt)
	}
	i, _ := w.load().Find(gatewaytest.ID(t, "fs:moved"))
	if x := w.load().Tool(i); string(x.Definition.Raw) != `{"name":"moved","title":"new"}` || string(x.ApprovedRaw) != `{"name":"moved"}` {
		t.Errorf("definition %s, approved %s", x.Definition.Raw, x.ApprovedRaw)
	}
	w.Server("fs").Outcome = outcome.Outcome{}
	w.sync()
	if got := w.load().Current().Rebuilt; len(got) > 0 {
		t.Errorf("rebuilt = %v after fs loaded", got)
	}
}

// A sync also restores the records of a server that leaves the config at the same time: the next
// catalog does not have the server any more.
func TestRecoverOfAServerThatLeaves(t *testing.T) {
	for _, test := range []struct {
		name string
		left map[string]string
	}{
		{"the server leaves", map[string]string{}},
		{"two names replace its name", map[string]string{"one": here, "two": here}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := lost(t)
			w.place(test.left)
			w.sync()
			wantStates(t, w, locked...)
			if n := w.load().Current().Restored; n != 0 {
				t.Errorf("%d records of removed servers count as unsettled, want 0", n)
			}
			w.place(map[string]string{"fs": here + `,"approval": "off"`})
			w.sync()
			wantStates(t, w, locked...)
			if n := w.load().Current().Restored; n != 4 {
				t.Errorf("%d records are unsettled, want 4", n)
			}
		})
	}
}

// The store is lost after the sync has read the records. At the same time another sync writes
// current.json.
func TestRecoverDuringARace(t *testing.T) {
	w := lockedAt(t, here)
	w.sync()
	store := &swapped{Mem: w.Approvals}
	w.Syncer = catalog.NewSyncer(w.Objects, store, w.Servers, &catalog.SyncOptions{Now: w.Clock.Now})
	slow := true
	w.Objects.OnPut = func(ctx context.Context, key string, _ []byte) (bool, error) {
		if key == catalog.CurrentKey && slow {
			slow = false
			cur, err := w.Objects.Get(ctx, key, "")
			if err == nil {
				_, err = w.Objects.Put(ctx, key, append(cur.Data, '\n'), "")
			}
			if err != nil {
				t.Error(err)
			}
			w.Approvals = &approvaltest.Mem{Now: w.Clock.Now}
			store.Mem = w.Approvals
		}
		return false, nil
	}
	w.sync()
	wantStates(t, w, locked...)
	w.sync()
	wantStates(t, w, locked...)
}

// A swapped store can be replaced by another store during a test.
type swapped struct{ *approvaltest.Mem }
