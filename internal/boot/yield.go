package boot

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// longestPause is how long a sync waits at once while requests are being answered. Of the time
	// in which there are always some, it has a part of workShare to go on.
	longestPause = 20 * time.Millisecond
	workShare    = 5

	// shortAnswer is how long a request counts as being answered: a call that waits for its server,
	// and a stream, need no processor.
	shortAnswer = 100 * time.Millisecond

	// firstAnswer is how long the first sync after a start waits for a first request to be answered.
	firstAnswer = 2 * time.Second

	pauseStep = time.Millisecond
)

// A Yielder lets requests go before a sync in the same process. The zero Yielder is ready to use.
type Yielder struct {
	busy     atomic.Int64 // requests that are being answered
	answered atomic.Bool  // one was, however long it took

	mu    sync.Mutex
	until time.Time // the sync goes on at least until then
}

// Handler returns h, whose requests go first.
func (p *Yielder) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.busy.Add(1)
		long := time.AfterFunc(shortAnswer, p.end)
		defer func() {
			if long.Stop() { // else it has counted the request out
				p.end()
			}
			p.answered.Store(true)
		}()
		h.ServeHTTP(w, r)
	})
}

// end ceases to count a request.
func (p *Yielder) end() { p.busy.Add(-1) }

// Yield waits while requests are being answered, for a bounded time. A sync calls it between small
// parts of its work.
func (p *Yielder) Yield(ctx context.Context) {
	if p.busy.Load() == 0 {
		return
	}
	p.mu.Lock() // what works side by side pauses together
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

// First waits until a request was answered, for a bounded time.
func (p *Yielder) First(ctx context.Context) {
	for began := time.Now(); !p.answered.Load() && time.Since(began) < firstAnswer && ctx.Err() == nil; {
		time.Sleep(10 * pauseStep)
	}
}
