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

// LoadAll loads the targets as [Client.LoadEach] does, and returns the outcomes in the order of the
// targets. If the function each is not nil, LoadAll also calls it with every outcome, as LoadEach
// does.
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

// LoadEach starts to load the targets in their order. When a target is loaded, LoadEach calls the
// function each with the outcome; these calls do not overlap. At most Options.Concurrency targets
// load at the same time. So while the function each runs, at most Options.Concurrency outcomes
// wait, and LoadEach stores no other outcomes.
//
// At first, at most eight loads begin within a second, because more of them make a cold
// authorization service fail. After each round of successful loads, one more load may begin within
// a second. This limit stops growing when the service is overloaded.
//
// When ctx ends, LoadEach returns with the outcomes so far. A server without an outcome has the
// zero Status.
func (c *Client) LoadEach(ctx context.Context, targets []Target, each func(outcome.Outcome)) {
	c.loadEach(ctx, targets, func(_ int, o outcome.Outcome) { each(o) })
}

// Keep ends the programs of servers that are no longer among the targets.
func (c *Client) Keep(targets []Target) {
	if c.programs != nil {
		c.programs.keep(targets)
	}
}

func (c *Client) loadEach(ctx context.Context, targets []Target, each func(int, outcome.Outcome)) {
	// The deadline of ctx is for all loads together, so a server must not fail because of it. When
	// ctx ends, cancel aborts the loads that still run, and they have no outcome.
	loading, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	// events has functions that the loading goroutines send to this goroutine. It has room for
	// about as many functions as all goroutines can send, so that a goroutine rarely waits.
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
	most     int          // maximum number of loads that run at the same time
	limit    int          // maximum length of starting; it grows on success
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

// noteAttempt lowers the limit if one attempt of a load failed because of overload. The load itself
// may try again.
func (p *pacer) noteAttempt(reason string) {
	switch reason {
	case outcome.ReasonAuthzUnavailable: // many servers share the service
		p.limit, p.fixed = min(burst, p.limit), true
	case outcome.ReasonRateLimited:
		p.limit = max(p.limit/2, min(burst, p.limit))
	}
}

// end handles the end of load i. After as many successful loads as the limit, the limit grows by
// one.
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
