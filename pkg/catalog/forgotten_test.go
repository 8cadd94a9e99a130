package catalog_test

import (
	"slices"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/require"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

// damages are the ways in which a catalog becomes unusable.
var damages = map[string]func(t *testing.T, w *fixture){
	"current.json is no JSON": func(_ *testing.T, w *fixture) { w.Put(catalog.CurrentKey, "no catalog") },
	"current.json is empty":   func(_ *testing.T, w *fixture) { w.Put(catalog.CurrentKey, "") },
	"the catalog is damaged":  func(_ *testing.T, w *fixture) { w.Put(catalog.Key(w.load().SHA256()), "no catalog") },
	"the catalog is another": func(t *testing.T, w *fixture) {
		w.Put(catalog.Key(w.load().SHA256()), string(build(t, catalog.Input{}).Encode()))
	},
	"a shard is missing": func(t *testing.T, w *fixture) { w.remove(catalog.Key(w.load().SHA256())) },
}

// forgetful is a gateway that lost its approvals and its catalog together. Its three servers
// require approval of changes, of everything, and of nothing.
func forgetful(t *testing.T, damage func(*testing.T, *fixture)) *fixture {
	w := newFixture(t)
	w.ConfigureOnly(map[string]string{"fs": "", "strict": `,"approval":"manual"`, "free": `,"approval":"off"`})
	w.serve(map[string][]string{"fs": {"read", "write"}, "strict": {"drop"}, "free": {"ping"}})
	w.sync()
	w.Decide("fs:write", "disable")
	w.Decide("free:ping", "block")
	w.sync()
	damage(t, w)
	w.lose(&approvaltest.Mem{Now: w.Clock.Now})
	return w
}

// open returns the tools that are callable according to their records.
func (w *fixture) open() (open []string) {
	w.T.Helper()
	for _, server := range []string{"fs", "strict", "free"} {
		records, err := w.Approvals.Records(w.T.Context(), server)
		require.OK(w.T, err)
		for _, r := range records {
			if !r.Disabled && (r.State == approval.Approved || server == "free" && r.State != approval.Blocked) {
				open = append(open, r.ID().String())
			}
		}
	}
	return open
}

func (w *fixture) wantForgotten(when string, restored int, servers ...string) {
	w.T.Helper()
	cur := w.load().Current()
	slices.Sort(cur.Forgotten)
	if !slices.Equal(cur.Forgotten, servers) || cur.Restored != restored {
		w.T.Errorf("%s: forgotten = %v, %d records wait for a person; want %v, %d", when, cur.Forgotten, cur.Restored, servers, restored)
	}
}

// With an empty store and an unusable catalog, no tool is callable. Later catalogs report the loss
// until a person decides about it.
func TestForgotten(t *testing.T) {
	for name, damage := range damages {
		for settled, how := range map[string]catalog.Reconciler{"restore": approval.KeepRestored, "accept": approval.AcceptStore} {
			t.Run(name+", "+settled, func(t *testing.T) {
				w := forgetful(t, damage)
				for range 3 {
					w.sync()
					w.wantForgotten("after a sync", 4, "free", "fs", "strict")
					if open := w.open(); len(open) > 0 {
						t.Errorf("open are %v", open)
					}
					w.Clock.Wait(time.Hour)
				}
				w.Restart()
				w.syncDue()
				w.wantForgotten("after a restart", 4, "free", "fs", "strict")
				if n := w.settle(how); n != 4 {
					t.Errorf("%d records are settled, want 4", n)
				}
				w.sync()
				w.wantForgotten("once it is settled", 0)
				var want []string // with accept the decisions stay lost, and free needs no approval
				if settled == "accept" {
					want = []string{"free:ping"}
				}
				wantEqual(t, "open", want, w.open())
			})
		}
	}
}

// If a server is unavailable or disabled at the time of the loss, a later sync loads it. Then its
// items are locked too.
func TestForgottenServerThatIsAway(t *testing.T) {
	w := forgetful(t, damages["the catalog is damaged"])
	for _, server := range []string{"fs", "strict", "free"} {
		w.Server(server).Outcome = transient()
	}
	for range 2 {
		w.sync()
		w.wantForgotten("while servers are unavailable", 0, "free", "fs", "strict")
		w.Clock.Wait(time.Hour)
	}
	for _, server := range []string{"fs", "strict", "free"} {
		w.Server(server).Outcome = outcome.Outcome{}
	}
	w.Restart()
	w.sync()
	w.wantForgotten("when the servers are back", 4, "free", "fs", "strict")
	if open := w.open(); len(open) > 0 {
		t.Errorf("open are %v", open)
	}
	w.settle(approval.AcceptStore)
	w.sync()
	w.wantForgotten("once it is settled", 0)
}

// If a sync is interrupted at any of its writes, the next sync approves no tool automatically as
// part of a server's first list.
func TestForgottenInterrupted(t *testing.T) {
	interruptEach(t, 5, func(t *testing.T) *fixture {
		return forgetful(t, damages["a shard is missing"])
	}, func(t *testing.T, w *fixture) {
		if open := w.open(); len(open) > 0 {
			t.Errorf("open are %v", open)
		}
		w.wantForgotten("after the next sync", 4, "free", "fs", "strict")
	})
}

// A damaged catalog with an intact store loses nothing, and neither does a new gateway.
func TestForgottenNothing(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			w := forgetful(t, func(*testing.T, *fixture) {})
			w.sync()
			w.wantForgotten("only the store is lost", 4)
			w.settle(approval.KeepRestored)
			before := w.sync()
			damage(t, w)
			w.Restart()
			if rep := w.sync(); rep.Snapshot != before.Snapshot || !rep.Stored {
				t.Errorf("the sync stores %v %s, want the same catalog again", rep.Stored, rep.Snapshot)
			}
			w.wantForgotten("only the catalog is lost", 0)
			wantEqual(t, "open", []string{"fs:read"}, w.open())
		})
	}
	w := serving(t, "read")
	w.sync()
	w.wantForgotten("a new gateway", 0)
	if open := w.open(); !slices.Equal(open, []string{"fs:read"}) {
		t.Errorf("open are %v", open)
	}
}

// A distributed sync reports lost decisions as a single sync does.
func TestForgottenShared(t *testing.T) {
	w := shared(t)
	w.mustShare(true)
	for _, folder := range []string{"catalog", "catalog/servers"} {
		all, err := w.Objects.List(t.Context(), folder)
		require.OK(t, err)
		for key := range all {
			w.Put(key, "damaged")
		}
	}
	w.lose(&approvaltest.Mem{Now: w.Clock.Now})
	for range 2 {
		w.Clock.Wait(time.Hour)
		w.mustShare(true)
		if n := len(w.load().Current().Forgotten); n != len(w.load().Servers()) || w.load().Current().Restored == 0 {
			t.Errorf("%d servers are forgotten, %d records wait for a person", n, w.load().Current().Restored)
		}
	}
	w.settle(approval.AcceptStore)
	w.Clock.Wait(time.Hour)
	w.mustShare(true)
	w.wantForgotten("once it is settled", 0)
}

// If the server lists a kind of items only after the decision about the loss, that kind has no
// first list either. This is true for any spelling of the server's address.
func TestForgottenKindThatComesLater(t *testing.T) {
	for _, url := range []string{here, here + "?tenant=a", "http://127.0.0.1:3000/mcp"} {
		w := newFixture(t)
		w.place(map[string]string{"fs": url})
		fs := w.Serve("fs", "read")
		w.sync()
		w.Put(catalog.CurrentKey, "no catalog")
		w.lose(&approvaltest.Mem{Now: w.Clock.Now})
		w.sync()
		w.settle(approval.AcceptStore)
		w.sync()
		w.wantForgotten(url+", once it is settled", 0)
		fs.Prompts = []string{gatewaytest.Prompt("plan", "Plans.")}
		w.sync()
		w.holds(url, "fs:read: pending", "fs:prompt:plan: pending")
	}
}
