package upstream

import (
	"context"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

const (
	// burst is how many loads begin together at first, because a cold authorization service can
	// handle this many.
	burst = 8

	// burstTime is the time after which a load no longer belongs to a burst. A request of that age
	// has passed the authorization service or hangs.
	burstTime = time.Second
)

// LoadAll loads the targets as [Client.LoadEach] does, and returns their outcomes in their order.
// If the function each is not nil, LoadAll calls it with every outcome as it comes, one at a time.
func (c *Client) LoadAll(ctx context.Context, targets []Target, each func(outcome.Outcome)) []outcome.Outcome {
	out := make([]outcome.Outcome, len(targets))
	c.loadEach(ctx, targets, func(i int, o outcome.Outcome) {
		out[i] = o
		if each != nil {
			each(o)
		}
	})
	return out
}

// LoadEach starts to load the targets in their order, and calls the function each with every
// outcome as it comes, one at a time. At most Options.Concurrency targets load at once. While each
// runs, at most Options.Concurrency outcomes wait, and LoadEach stores no other outcomes. At first,
// no more than eight loads begin within a second, because a burst makes a cold authorization
// service fail. Each round of successful loads permits one more, until the service is overloaded.
//
// The targets are the complete list: LoadEach ends the programs of other servers.
//
// When ctx ends, LoadEach returns with the outcomes so far. A server without an outcome has the
// zero Status.
func (c *Client) LoadEach(ctx context.Context, targets []Target, each func(outcome.Outcome)) {
	c.loadEach(ctx, targets, func(_ int, o outcome.Outcome) { each(o) })
}

func (c *Client) loadEach(ctx context.Context, targets []Target, each func(int, outcome.Outcome)) {
	if c.programs != nil {
		c.programs.keep(targets)
	}
	// The end of all loads is no failure of a load's server. It cancels the load, which then has no
	// outcome.
	loading, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	// events has functions that the loading goroutines send to this goroutine. Few goroutines load
	// at the same time, and each waits only until its function has run.
	events := make(chan func(), c.o.Concurrency*(c.limits.attempts+2))
	p := newPacer(c.o.Concurrency, c.limits.burst)
	loads := crew{make(chan func())}
	defer close(loads.work)
	over := ctx.Done()
	for next := 0; ; {
		for next < len(targets) && over != nil && p.start(next) {
			i := next
			calm := time.AfterFunc(burstTime, func() {
				select {
				case events <- func() { delete(p.starting, i) }:
				default: // the end of the load deletes it too
				}
			})
			loads.run(func() {
				sleep(loading, c.o.Jitter(c.limits.start))
				note := func(o outcome.Outcome) { events <- func() { p.noteAttempt(o.Reason) } }
				c.loadHere(loading, targets[i], note, func(o outcome.Outcome) {
					events <- func() {
						calm.Stop()
						p.end(i, o.Status)
						each(i, o)
					}
				})
			})
			next++
		}
		if p.running == 0 && (next == len(targets) || over == nil) {
			for i := next; i < len(targets); i++ {
				each(i, outcome.Outcome{ServerID: targets[i].ID})
			}
			return
		}
		select {
		case event := <-events:
			event()
		case <-over:
			over = nil
			cancel()
		}
	}
}

// A crew runs functions on a few goroutines that it reuses, because the stack of each new goroutine
// has to grow first. The goroutines end when work is closed.
type crew struct{ work chan func() }

// run starts f and does not wait for it.
func (c crew) run(f func()) {
	select {
	case c.work <- f:
	default: // no goroutine is idle
		go func() {
			for ok := true; ok; f, ok = <-c.work {
				f()
			}
		}()
	}
}

// A pacer limits how many loads run at once.
type pacer struct {
	most     int          // limit of all loads
	limit    int          // limit of starting loads; it grows on success
	fixed    bool         // limit no longer grows
	starting map[int]bool // loads that began just now
	well     int          // successful loads since limit grew
	running  int
}

func newPacer(most, limit int) pacer {
	return pacer{most: most, limit: min(limit, most), starting: map[int]bool{}}
}

// start reports whether load i may begin, and registers it.
func (p *pacer) start(i int) bool {
	if p.running >= p.most || len(p.starting) >= p.limit {
		return false
	}
	p.running++
	p.starting[i] = true
	return true
}

// noteAttempt handles the reason of one attempt; the load may continue.
func (p *pacer) noteAttempt(reason string) {
	switch reason {
	case outcome.ReasonAuthzUnavailable: // many servers share the service
		p.limit, p.fixed = min(burst, p.limit), true
	case outcome.ReasonRateLimited:
		p.limit = max(p.limit/2, min(burst, p.limit))
	}
}

// end handles the end of load i. A round of successful loads raises the limit by one.
func (p *pacer) end(i int, status outcome.Status) {
	p.running--
	delete(p.starting, i)
	if status != outcome.Available || p.fixed {
		return
	}
	if p.well++; p.well >= p.limit {
		p.limit, p.well = min(p.limit+1, p.most), 0
	}
}
