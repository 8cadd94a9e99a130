package upstream

import (
	"context"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/outcome"
)

const (
	// burst is how many loads begin at once, while nothing is known of what stands before
	// the servers: a cold authorization service bears so many.
	burst = 8

	// settled is when a load is no part of a burst any more: it has got past whatever
	// stands before its server, or hangs.
	settled = time.Second
)

// LoadAll loads the targets in their order and returns their outcomes in that order. At most
// Options.Concurrency load at once, and at first no more than eight begin within a second:
// a burst is what makes a cold authorization service fail. Each round of servers that load makes room
// for one more, until one meets such a service that is overloaded.
//
// When ctx ends LoadAll returns what it has. A server that was not asked, or not to the end,
// has the zero Status then. each, if not nil, is called with every outcome as it comes, one
// at a time.
func (c *Client) LoadAll(ctx context.Context, targets []Target, each func(outcome.Outcome)) []outcome.Outcome {
	if each == nil {
		each = func(outcome.Outcome) {}
	}
	// A load must not take the end of all loads for its own server's: it is canceled then, and
	// says nothing.
	loading, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	type result struct {
		i int
		o outcome.Outcome
	}
	ended, calm := make(chan result, len(targets)), make(chan int, len(targets))
	met := make(chan string, len(targets)*c.limits.attempts) // reasons of attempts
	timers := make([]*time.Timer, len(targets))
	out := make([]outcome.Outcome, len(targets))
	p := pace{most: c.o.Concurrency, limit: min(c.limits.burst, c.o.Concurrency), young: map[int]bool{}}
	over := ctx.Done()
	for next := 0; ; {
		for next < len(targets) && over != nil && p.start(next) {
			i := next
			timers[i] = time.AfterFunc(settled, func() { calm <- i })
			go func() {
				sleep(loading, c.o.Jitter(c.limits.start))
				ended <- result{i, c.load(loading, targets[i], func(o outcome.Outcome) { met <- o.Reason })}
			}()
			next++
		}
		if p.running == 0 && (next == len(targets) || over == nil) {
			for i := next; i < len(targets); i++ {
				out[i] = outcome.Outcome{ServerID: targets[i].ID}
				each(out[i])
			}
			return out
		}
		select {
		case r := <-ended:
			timers[r.i].Stop()
			p.end(r.i, r.o.Status)
			out[r.i] = r.o
			each(r.o)
		case reason := <-met:
			p.met(reason)
		case i := <-calm:
			delete(p.young, i)
		case <-over:
			over = nil
			cancel()
		}
	}
}

// A pace says how many loads may go on at once.
type pace struct {
	most    int          // in all
	limit   int          // of those that began just now; it grows while all is well
	fixed   bool         // it grows no more
	young   map[int]bool // those that began just now
	well    int          // how many have loaded since it grew
	running int
}

// start reports whether load i may begin, which it then has.
func (p *pace) start(i int) bool {
	if p.running >= p.most || len(p.young) >= p.limit {
		return false
	}
	p.running++
	p.young[i] = true
	return true
}

// met takes the reason of one attempt, while its load may go on.
func (p *pace) met(reason string) {
	switch reason {
	case outcome.ReasonAuthzUnavailable: // many servers share the service
		p.limit, p.fixed = min(burst, p.limit), true
	case outcome.ReasonRateLimited:
		p.limit = max(p.limit/2, min(burst, p.limit))
	}
}

// end takes the end of load i. A round of loads that end well makes room for one more.
func (p *pace) end(i int, status outcome.Status) {
	p.running--
	delete(p.young, i)
	if status != outcome.Available || p.fixed {
		return
	}
	if p.well++; p.well >= p.limit {
		p.limit, p.well = min(p.limit+1, p.most), 0
	}
}
