package upstream

import (
	"context"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

const (
	// burst is how many loads begin at once, while nothing is known of what stands before
	// the servers: a cold authorization service bears so many.
	burst = 8

	// burstTime is when a load is no part of a burst any more: it has got past whatever
	// stands before its server, or hangs.
	burstTime = time.Second
)

// LoadAll loads the targets as [Client.LoadEach] does, and returns their outcomes in their order.
// each, if not nil, is called with every outcome as it comes, one at a time.
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

// LoadEach loads the targets, begun in their order, and calls each with every outcome as it comes, one
// at a time. It keeps none: while each does not return, at most as many wait as load at once. At most
// Options.Concurrency load at once, and at first no more than eight begin within a second:
// a burst is what makes a cold authorization service fail. Each round of servers that load makes
// room for one more, until one meets such a service that is overloaded.
//
// The targets are all that there are: a program of another server is ended.
//
// When ctx ends LoadEach returns with what it has. A server that was not asked, or not to the end,
// has the zero Status then.
func (c *Client) LoadEach(ctx context.Context, targets []Target, each func(outcome.Outcome)) {
	c.loadEach(ctx, targets, func(_ int, o outcome.Outcome) { each(o) })
}

func (c *Client) loadEach(ctx context.Context, targets []Target, each func(int, outcome.Outcome)) {
	if c.programs != nil {
		c.programs.keep(targets)
	}
	// A load must not take the end of all loads for its own server's: it is canceled then, and
	// says nothing.
	loading, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	// What goroutines have to tell this one. Those that load at once are few, and each is let go when
	// it was heard.
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
				default: // its end says so too
				}
			})
			loads.run(func() {
				sleep(loading, c.o.Jitter(c.limits.start))
				met := func(o outcome.Outcome) { events <- func() { p.met(o.Reason) } }
				c.loadHere(loading, targets[i], met, func(o outcome.Outcome) {
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

// A crew runs functions on goroutines that it keeps: the stack of a new one has to grow as often as it did
// for the last. They end when work is closed.
type crew struct{ work chan func() }

// run does not wait for f.
func (c crew) run(f func()) {
	select {
	case c.work <- f:
	default: // nobody is idle
		go func() {
			for ok := true; ok; f, ok = <-c.work {
				f()
			}
		}()
	}
}

// A pacer says how many loads may go on at once.
type pacer struct {
	most     int          // in all
	limit    int          // of those that began just now; it grows while all is well
	fixed    bool         // it grows no more
	starting map[int]bool // those that began just now
	well     int          // how many have loaded since it grew
	running  int
}

func newPacer(most, limit int) pacer {
	return pacer{most: most, limit: min(limit, most), starting: map[int]bool{}}
}

// start reports whether load i may begin, which it then has.
func (p *pacer) start(i int) bool {
	if p.running >= p.most || len(p.starting) >= p.limit {
		return false
	}
	p.running++
	p.starting[i] = true
	return true
}

// met takes the reason of one attempt, while its load may go on.
func (p *pacer) met(reason string) {
	switch reason {
	case outcome.ReasonAuthzUnavailable: // many servers share the service
		p.limit, p.fixed = min(burst, p.limit), true
	case outcome.ReasonRateLimited:
		p.limit = max(p.limit/2, min(burst, p.limit))
	}
}

// end takes the end of load i. A round of loads that end well makes room for one more.
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
