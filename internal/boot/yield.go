package boot

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// longestPause is how long a sync waits in one pause while the gateway answers requests. If
	// requests never stop, the sync still gets workShare of the time.
	longestPause = 20 * time.Millisecond
	workShare    = 5

	// shortAnswer is the maximum time that a request counts as active. A longer request only waits
	// for its server or streams, so it does not need the processor.
	shortAnswer = 100 * time.Millisecond

	// The first sync after a start waits firstRequest for a request, and firstAnswer for the answer
	// to that request.
	firstRequest = 200 * time.Millisecond
	firstAnswer  = 2 * time.Second

	pauseStep = time.Millisecond
)

// A Yielder lets requests run before a sync in the same process. The zero Yielder is ready to use.
type Yielder struct {
	busy        atomic.Int64 // active requests
	hasRequest  atomic.Bool  // the first request has come
	hasAnswered atomic.Bool  // the first request is done

	mu    sync.Mutex
	until time.Time // the sync runs at least until then
}

// Handler returns h; its requests have priority.
func (p *Yielder) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.busy.Add(1)
		p.hasRequest.Store(true)
		long := time.AfterFunc(shortAnswer, p.end)
		defer func() {
			if long.Stop() { // if not, the timer has already subtracted the request
				p.end()
			}
			p.hasAnswered.Store(true)
		}()
		h.ServeHTTP(w, r)
	})
}

// end stops counting a request as active.
func (p *Yielder) end() { p.busy.Add(-1) }

// Yield waits while requests are active, for a limited time. A sync calls it between small parts of
// its work.
func (p *Yielder) Yield(ctx context.Context) {
	if p.busy.Load() == 0 {
		return
	}
	p.mu.Lock() // parallel work pauses together
	defer p.mu.Unlock()
	began := time.Now()
	if began.Before(p.until) {
		return
	}
	now := began
	for p.busy.Load() > 0 && now.Sub(began) < longestPause && ctx.Err() == nil {
		time.Sleep(pauseStep)
		now = time.Now()
	}
	p.until = now.Add(now.Sub(began) / (workShare - 1))
}

// First waits until the first request is answered, for a limited time.
func (p *Yielder) First(ctx context.Context) {
	for began := time.Now(); !p.hasAnswered.Load() && ctx.Err() == nil; time.Sleep(10 * pauseStep) {
		waited := time.Since(began)
		if waited >= firstAnswer || waited >= firstRequest && !p.hasRequest.Load() {
			return
		}
	}
}
