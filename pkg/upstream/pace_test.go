package upstream

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

func TestPace(t *testing.T) {
	p := pace{most: 64, limit: 8, young: map[int]bool{}}
	started := 0
	start := func() (n int) {
		for p.start(started) {
			started++
			n++
		}
		return n
	}
	if n := start(); n != 8 {
		t.Errorf("%d begin at once, want 8", n)
	}
	for i := range 8 {
		p.end(i, outcome.Available)
	}
	if n := start(); n != 9 {
		t.Errorf("after eight have loaded %d begin, want 9", n)
	}
	delete(p.young, 8) // it hangs
	if n := start(); n != 1 {
		t.Errorf("beside one that hangs %d more begin, want 1", n)
	}
	p.met(outcome.ReasonRateLimited)
	if p.limit != 8 || p.fixed {
		t.Errorf("the limit is %d, fixed %t, after a server was busy, want 8", p.limit, p.fixed)
	}
	p.met(outcome.ReasonAuthzUnavailable)
	for i := range 100 {
		p.end(i, outcome.Available)
	}
	if p.limit != 8 {
		t.Errorf("the limit is %d after an overloaded service, want it to stay 8", p.limit)
	}
	p = pace{most: 10, limit: 10, young: map[int]bool{}}
	for i := range 12 {
		if ok := p.start(i); ok != (i < 10) {
			t.Errorf("load %d begins: %t", i, ok)
		}
		delete(p.young, i)
	}
}

// hangs reports whether the i-th server of fill never answers: 240 do not.
func hangs(i int) bool { return i%31 >= 7 }

// fill gives the farm 310 servers.
func fill(t *testing.T, f *farm) {
	for i := range 310 {
		s := f.add(t, upstreamtest.Options{Tools: tools(2), Era: upstreamtest.Modern})
		if hangs(i) {
			s.Fail(upstreamtest.Hang())
		}
	}
}

// TestManyHangingServers runs 310 servers on a fake clock, 240 of which never answer.
func TestManyHangingServers(t *testing.T) {
	t.Run("all are asked", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFarm(Options{})
			defer f.close()
			fill(t, f)
			start := time.Now()
			ids, n := byStatus(f.client.LoadAll(t.Context(), f.targets, nil))
			took := time.Since(start)
			t.Logf("310 servers, 240 hanging: %v (fake clock)", took)
			if hung := len(ids[outcome.Transient]); n != 70*2 || hung != 240 || took > time.Minute {
				t.Errorf("%d tools, %d transient, after %v; want 140, 240, and no more than a minute", n, hung, took)
			}
		})
	})
	t.Run("those that failed before come last and are asked once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFarm(Options{})
			defer f.close()
			fill(t, f)
			sick := make(map[string]bool)
			for i := range f.targets {
				f.targets[i].Once = hangs(i)
				sick[f.targets[i].ID] = hangs(i)
			}
			slices.SortStableFunc(f.targets, func(a, b Target) int {
				switch {
				case a.Once == b.Once:
					return 0
				case b.Once:
					return -1
				}
				return 1
			})
			start := time.Now()
			var healthy time.Duration
			outs := f.client.LoadAll(t.Context(), f.targets, func(o outcome.Outcome) {
				if o.Status == outcome.Available {
					healthy = time.Since(start)
				}
			})
			t.Logf("the healthy ones after %v, all after %v (fake clock)", healthy, time.Since(start))
			if _, n := byStatus(outs); n != 140 || healthy > time.Second {
				t.Errorf("%d tools, the last after %v", n, healthy)
			}
			for _, o := range outs {
				if sick[o.ServerID] && o.Attempts != 1 {
					t.Errorf("%s was asked %d times", o.ServerID, o.Attempts)
				}
			}
		})
	})
}

// What has answered by the deadline is kept; of the others nothing is said.
func TestHangingServersOutliveTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFarm(Options{})
		defer f.close()
		fill(t, f)
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		start := time.Now()
		told := 0
		outs := f.client.LoadAll(ctx, f.targets, func(outcome.Outcome) { told++ })
		if took := time.Since(start); took > 13*time.Second {
			t.Errorf("it took %v", took)
		}
		counts := map[outcome.Status]int{}
		for i, o := range outs {
			counts[o.Status]++
			if o.ServerID != f.targets[i].ID {
				t.Errorf("outcome %d is of %q", i, o.ServerID)
			}
			if o.Status == outcome.Available && hangs(i) || o.Status != outcome.Available && o.Status != "" && !hangs(i) {
				t.Errorf("%s is %s %s", o.ServerID, o.Status, o.Reason)
			}
		}
		if counts[outcome.Available] < 20 || counts[""] < 50 || counts[outcome.Transient] < 8 || told != 310 {
			t.Errorf("%v, %d told of", counts, told)
		}
	})
}

// A server that answers after the end of all loads is not said to be slow.
func TestALoadThatIsCutShortSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, lines := logged()
		f := newFarm(Options{Log: log})
		defer f.close()
		f.add(t, upstreamtest.Options{Tools: tools(1)}).Fail(upstreamtest.Hang())
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if o := f.client.LoadAll(ctx, f.targets, nil)[0]; o.Recorded() || o.ServerID != "server0" {
			t.Errorf("outcome = %+v, want none", o)
		}
		if strings.Contains(lines.String(), `"level":"WARN"`) {
			t.Errorf("it is logged:\n%s", lines)
		}
	})
}
