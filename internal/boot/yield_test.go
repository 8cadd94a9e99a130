package boot

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// startRequest starts a request that takes this long.
func startRequest(p *Yielder, takes time.Duration) {
	go p.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(takes) })).
		ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/mcp", nil))
	synctest.Wait()
}

func TestYield(t *testing.T) {
	for _, c := range []struct {
		name       string
		takes      time.Duration // of the request
		begins     time.Duration // before the sync yields
		least, max time.Duration // of the pause
	}{
		{"no request", 0, time.Second, 0, 0},
		{"a request of 5 ms", 5 * time.Millisecond, 0, 5 * time.Millisecond, 6 * time.Millisecond},
		{"a request of 50 ms", 50 * time.Millisecond, 0, 20 * time.Millisecond, 21 * time.Millisecond},
		{"a call that waits for its server", time.Minute, time.Second, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := new(Yielder)
				startRequest(p, c.takes)
				time.Sleep(c.begins)
				began := time.Now()
				p.Yield(t.Context())
				if d := time.Since(began); d < c.least || d > c.max {
					t.Errorf("paused for %v, want %v to %v", d, c.least, c.max)
				}
				time.Sleep(c.takes)
			})
		})
	}
}

// A sync ends even under constant requests, because it gets a fifth of the time.
func TestYieldIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(Yielder)
		p.busy.Store(1)
		const work = time.Second
		began := time.Now()
		for range work / time.Millisecond {
			p.Yield(t.Context())
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(began); took < 4*work || took > 6*work {
			t.Errorf("%v of work took %v while a request was always active", work, took)
		}
	})
}

// The first answer after a start may take far longer than later answers, because it opens the
// catalog. So the first sync waits longer for it.
func TestFirst(t *testing.T) {
	for _, c := range []struct {
		name       string
		takes      time.Duration // of the request; 0: no request
		least, max time.Duration
	}{
		{"no request", 0, firstRequest, firstRequest},
		{"a request of 10 ms", 10 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond},
		{"a request of 800 ms", 800 * time.Millisecond, 800 * time.Millisecond, 810 * time.Millisecond},
		{"a stream", time.Minute, firstAnswer, firstAnswer},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, began := new(Yielder), time.Now()
				if c.takes > 0 {
					startRequest(p, c.takes)
				}
				p.First(t.Context())
				if d := time.Since(began); d < c.least || d > c.max {
					t.Errorf("waited for %v, want %v to %v", d, c.least, c.max)
				}
				time.Sleep(c.takes)
			})
		})
	}
}
