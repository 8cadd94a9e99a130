package catalog_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/test/require"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// slow returns a fixture that uses the fake clock of synctest. It has the servers s00, s01 … with
// one tool each.
func slow(t *testing.T, n int, takes func(server string) time.Duration) *fixture {
	w := newFixture(t)
	w.Clock.Set(time.Time{}, 0)
	if takes != nil {
		w.Slow = func(ctx context.Context, server string) {
			select {
			case <-time.After(takes(server)):
			case <-ctx.Done():
			}
		}
	}
	servers := map[string]string{}
	for i := range n {
		name := fmt.Sprintf("s%02d", i)
		servers[name] = ""
		w.Server(name).Tools = []string{"tool"}
	}
	w.ConfigureOnly(servers)
	return w
}

// single returns how many servers the last sync loaded with one attempt.
func (w *fixture) single() (n int) {
	for _, target := range w.Loaded {
		if target.Once {
			n++
		}
	}
	return n
}

func TestOrderOfFailingServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := slow(t, 5, nil)
		w.Server("s00").Outcome, w.Server("s02").Outcome = transient(), transient()
		w.sync()
		wantEqual(t, "the first sync asks", []string{"s00", "s01", "s02", "s03", "s04"}, w.loads())
		for range 3 {
			time.Sleep(5 * time.Minute)
			w.sync()
			wantEqual(t, "a later sync asks", []string{"s01", "s03", "s04", "s00", "s02"}, w.loads())
		}
	})
}

func TestOrderOfRequiredServers(t *testing.T) {
	w := newFixture(t)
	w.ConfigureOnly(map[string]string{"a": "", "b": `,"required":true`})
	w.serve(map[string][]string{"a": {"x"}, "b": {"y"}})
	w.sync()
	wantEqual(t, "order of loads", []string{"b", "a"}, w.loads())
}

func TestAttemptsOfManyFailingServers(t *testing.T) {
	for _, failing := range []int{16, 17} {
		synctest.Test(t, func(t *testing.T) {
			w := slow(t, 20, nil)
			for i := range failing {
				w.Server(fmt.Sprintf("s%02d", i)).Outcome = transient()
			}
			w.sync()
			if w.single() != 0 {
				t.Errorf("%d servers have one attempt in the first sync", w.single())
			}
			w.sync()
			if want := map[bool]int{true: failing}[failing > 16]; w.single() != want {
				t.Errorf("of %d failing servers %d have one attempt, want %d", failing, w.single(), want)
			}
		})
	}
}

// If time runs out, the sync uses the answers that came. The other servers keep their items, and
// each server has its turn.
func TestSyncOutOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := slow(t, 10, func(string) time.Duration { return 10 * time.Second })
		w.Server("s01").Outcome, w.Server("s04").Outcome = transient(), transient()
		timesAsked := map[string]int{}
		for n := range 12 {
			ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second) // loads may use 36 s of this: enough for three servers
			rep, err := w.Syncer.Sync(ctx)
			cancel()
			require.OK(t, err)
			loads := slices.Clone(w.loads())
			if len(loads) != 3 || rep.Unasked != 10-len(loads) {
				t.Errorf("sync %d asks %v and reports %d unasked", n, loads, rep.Unasked)
			}
			for _, s := range rep.Servers {
				if s.Unasked == slices.Contains(loads, s.Name) {
					t.Errorf("sync %d: %+v", n, s)
				}
			}
			for _, name := range loads {
				timesAsked[name]++
			}
			time.Sleep(5 * time.Minute)
		}
		if got := w.load().Len(); got != 8 {
			t.Errorf("%d tools are in the catalog, want the tools of the 8 healthy servers", got)
		}
		for i := range 10 {
			if n := timesAsked[fmt.Sprintf("s%02d", i)]; n < 2 {
				t.Errorf("s%02d was asked %d times in twelve syncs", i, n)
			}
		}
		if s, _ := w.load().Server("s01"); s.Outcome.Status != outcome.Transient || s.Outcome.CheckedAt.IsZero() {
			t.Errorf("s01 = %+v, want the outcome of its last load", s.Outcome)
		}
	})
}
