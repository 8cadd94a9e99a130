package upstream

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// loadAll loads all servers. It returns the outcomes, and the time until the available servers and
// until all servers were loaded.
func (f *fixture) loadAll() (outs []outcome.Outcome, well, all time.Duration) {
	start := time.Now()
	outs = f.LoadAll(f.t.Context(), f.targets, func(o outcome.Outcome) {
		if o.Status == outcome.Available {
			well = time.Since(start)
		}
	})
	return outs, well, time.Since(start)
}

// Servers in trouble do not affect each other: of 70 servers 5 hang, 5 reset, 5 answer 500 once, 5
// deny, 5 refuse, 5 have a secret whose read panics, and 40 work.
func TestLoadAllInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{
			Jitter:  func(limit time.Duration) time.Duration { return limit / 2 },
			Secrets: secretsFunc(func(string) (string, error) { panic("boom") }),
		})
		for i := range 70 {
			s := f.add(upstreamtest.Options{Tools: tools(8), Protocols: []upstreamtest.Protocols{upstreamtest.Modern, upstreamtest.Legacy}[i%2], Sessions: i%4 == 1})
			switch i / 5 {
			case 0:
				s.Fail(upstreamtest.Hang())
			case 1:
				s.Fail(upstreamtest.Reset())
			case 2:
				s.FailTimes(1, upstreamtest.Status(500, "starting"))
			case 3:
				s.Fail(upstreamtest.Status(403, "RBAC: access denied"))
			case 4:
				s.Refuse()
			case 5:
				f.targets[i].Headers = map[string]string{"X-Key": "${env:PANIC}"}
			}
		}
		outs, well, all := f.loadAll()
		want := []outcome.Outcome{{Status: transient, Attempts: 2}, {Status: transient, Attempts: 3}, {Status: outcome.Available, Attempts: 2},
			{Status: denied, Attempts: 1}, {Status: permanent, Attempts: 1}, {Status: permanent, Attempts: 1}}
		for i, o := range outs {
			want := append(want, slices.Repeat([]outcome.Outcome{{Status: outcome.Available, Attempts: 1}}, 8)...)[i/5]
			n := map[outcome.Status]int{outcome.Available: 8}[want.Status]
			if o.ServerID != f.targets[i].ID || o.Status != want.Status || o.Attempts != want.Attempts || len(o.Tools) != n {
				t.Errorf("%s = %s %s after %d attempts with %d tools, want %s after %d with %d", f.targets[i].ID, o.Status, o.Reason, o.Attempts, len(o.Tools), want.Status, want.Attempts, n)
			}
			if want.Status == denied && len(f.servers[i].Requests()) != 1 {
				t.Errorf("%s got %d more requests after a denial", o.ServerID, len(f.servers[i].Requests())-1)
			}
		}
		if len(outs) != 70 || all > 10500*time.Millisecond || well > 4*time.Second {
			t.Errorf("%d outcomes in %v, the last healthy one after %v; want at most 10.5 s for all, and 4 s for the healthy servers", len(outs), all, well)
		}
	})
}

// 70 servers share one authorization service. It is cold at first, handles eight checks of 75 to
// 150 ms at once, gives each 200 ms, and fails closed.
func TestLoadAllColdAuthorization(t *testing.T) {
	for _, tt := range []struct {
		name     string
		burst    int
		authz    *upstreamtest.Authz
		late     int // checks that exceed their time; -1: any number
		requests int // 0: any number
		ok       func(ids map[outcome.Status][]string) bool
	}{
		{"eight at first and retry: every server loads", burst, &upstreamtest.Authz{Cold: 8}, 8, 0, func(ids map[outcome.Status][]string) bool { return len(ids[outcome.Available]) == 70 }},
		{"warm, but slower than the loads begin", burst, &upstreamtest.Authz{}, -1, 0, func(ids map[outcome.Status][]string) bool { return len(ids[outcome.Available]) == 70 }},
		{"fails without a limit", 70, &upstreamtest.Authz{Cold: 8}, -1, 0, func(ids map[outcome.Status][]string) bool { return len(ids[transient]) > 0 }},
		{"a denial is not retried", burst, &upstreamtest.Authz{Deny: true, Parallel: 70}, -1, 70, func(ids map[outcome.Status][]string) bool { return len(ids[denied]) == 70 }},
	} {
		onFakeClock(t, tt.name, func(t *testing.T) {
			f := newFixture(t, Options{Concurrency: 70, Jitter: New(nil).o.Jitter}, slices.Repeat([]upstreamtest.Options{{Tools: tools(3), Protocols: upstreamtest.Modern, Front: tt.authz.Front}}, 70)...)
			f.limits.burst = tt.burst
			outs, _, _ := f.loadAll()
			ids, _ := byStatus(outs)
			checks, late := tt.authz.Counts()
			t.Logf("%d checks, %d of them not in time, %d servers transient", checks, late, len(ids[transient]))
			requests := 0
			for _, s := range f.servers {
				requests += len(s.Requests())
			}
			if !tt.ok(ids) || tt.late >= 0 && late != tt.late || tt.requests > 0 && requests != tt.requests {
				t.Errorf("%v after %d requests, %d checks were late, want %d", ids, requests, late, tt.late)
			}
		})
	}
}

func TestLoadAllConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wrong atomic.Int64
		var mu sync.Mutex
		var now, most int
		count := func(d int) {
			mu.Lock()
			defer mu.Unlock()
			now += d
			most = max(most, now)
		}
		front := func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				count(1)
				time.Sleep(time.Second)
				count(-1)
				next.ServeHTTP(w, r)
			})
		}
		f := newFixture(t, Options{Concurrency: 8, Jitter: func(limit time.Duration) time.Duration {
			if limit != 50*time.Millisecond {
				wrong.Add(1)
			}
			return limit / 2
		}}, slices.Repeat([]upstreamtest.Options{{Protocols: upstreamtest.Modern, Front: front}}, 24)...)
		outs, _, took := f.loadAll()
		ids, _ := byStatus(outs)
		// 3 rounds of 2 requests of 1 s, each after a jitter of 25 ms.
		if len(ids[outcome.Available]) != 24 || most != 8 || took != 3*(2*time.Second+25*time.Millisecond) {
			t.Errorf("%v: %d at once, %v in all, want 8 and 6.075s", ids, most, took)
		}
		if n := wrong.Load(); n != 0 {
			t.Errorf("%d jitter limits differ from 50ms", n)
		}
	})
}

func TestPacer(t *testing.T) {
	p := newPacer(64, 8)
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
		t.Errorf("after eight loads, %d begin, want 9", n)
	}
	delete(p.starting, 8) // load 8 hangs
	if n := start(); n != 1 {
		t.Errorf("while load 8 hangs, %d more begin, want 1", n)
	}
	p.noteAttempt(outcome.ReasonRateLimited)
	if p.limit != 8 || p.fixed {
		t.Errorf("the limit is %d, fixed %t, after a server was busy, want 8", p.limit, p.fixed)
	}
	p.noteAttempt(outcome.ReasonAuthzUnavailable)
	for i := range 100 {
		p.end(i, outcome.Available)
	}
	if p.limit != 8 {
		t.Errorf("the limit is %d after an overloaded service, want it to stay 8", p.limit)
	}
	p = newPacer(10, 10)
	for i := range 12 {
		if ok := p.start(i); ok != (i < 10) {
			t.Errorf("load %d begins: %t", i, ok)
		}
		delete(p.starting, i)
	}
}

// hangs reports whether the i-th server of manyHanging never answers. 240 servers never answer.
func hangs(i int) bool { return i%31 >= 7 }

// manyHanging returns a fixture with 310 servers.
func manyHanging(t *testing.T) *fixture {
	f := newFixture(t, Options{}, slices.Repeat([]upstreamtest.Options{{Tools: tools(2), Protocols: upstreamtest.Modern}}, 310)...)
	for i, s := range f.servers {
		if hangs(i) {
			s.Fail(upstreamtest.Hang())
		}
	}
	return f
}

func TestLoadAllManyHanging(t *testing.T) {
	onFakeClock(t, "all are loaded", func(t *testing.T) {
		outs, _, took := manyHanging(t).loadAll()
		ids, n := byStatus(outs)
		t.Logf("310 servers, 240 hanging: %v (fake clock)", took)
		if hung := len(ids[transient]); n != 70*2 || hung != 240 || took > time.Minute {
			t.Errorf("%d tools, %d transient, after %v; want 140, 240, and no more than a minute", n, hung, took)
		}
	})
	onFakeClock(t, "servers that failed before come last, with one attempt", func(t *testing.T) {
		f := manyHanging(t)
		var sick, well []Target
		for i, target := range f.targets {
			if target.Once = hangs(i); target.Once {
				sick = append(sick, target)
			} else {
				well = append(well, target)
			}
		}
		f.targets = slices.Concat(well, sick)
		outs, healthy, all := f.loadAll()
		t.Logf("the healthy servers after %v, all after %v (fake clock)", healthy, all)
		if _, n := byStatus(outs); n != 140 || healthy > time.Second {
			t.Errorf("%d tools, the last after %v", n, healthy)
		}
		for _, o := range outs[len(well):] {
			if o.Attempts != 1 {
				t.Errorf("%s had %d attempts, want 1", o.ServerID, o.Attempts)
			}
		}
	})
}

func TestLoadAllDeadline(t *testing.T) {
	// LoadAll keeps the outcomes until the deadline. The other servers have none.
	onFakeClock(t, "among many that hang", func(t *testing.T) {
		f := manyHanging(t)
		start := time.Now()
		n := 0
		outs := f.LoadAll(within(t, 12*time.Second), f.targets, func(outcome.Outcome) { n++ })
		if took := time.Since(start); took > 13*time.Second {
			t.Errorf("LoadAll took %v, want at most 13 s", took)
		}
		for i, o := range outs {
			if o.ServerID != f.targets[i].ID {
				t.Errorf("outcome %d is of %q", i, o.ServerID)
			}
			if o.Status == outcome.Available && hangs(i) || o.Status != outcome.Available && o.Status != "" && !hangs(i) {
				t.Errorf("%s is %s %s", o.ServerID, o.Status, o.Reason)
			}
		}
		if ids, _ := byStatus(outs); len(ids[outcome.Available]) < 20 || len(ids[""]) < 50 || len(ids[transient]) < 8 || n != 310 {
			t.Errorf("%v, %d outcomes", ids, n)
		}
	})
	// A server that answers after the end of all loads does not count as slow.
	onFakeClock(t, "answer after the end", func(t *testing.T) {
		log, lines := logged()
		f := newFixture(t, Options{Log: log}, upstreamtest.Options{})
		f.servers[0].Fail(upstreamtest.Hang())
		if o := f.LoadAll(within(t, 2*time.Second), f.targets, nil)[0]; o.Recorded() || o.ServerID != "server0" {
			t.Errorf("outcome = %+v, want none", o)
		}
		if strings.Contains(lines.String(), `"level":"WARN"`) {
			t.Errorf("a load without an outcome is logged as a warning:\n%s", lines)
		}
	})
}
