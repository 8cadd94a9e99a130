package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
	"github.com/portcullis-mcp/portcullis/pkg/rules/signature"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

const (
	maxPages   = 64       // of one list
	maxListing = 16 << 20 // bytes of all its pages
	maxListed  = 10_000   // tools or other items on all its pages
	maxRefused = 100      // refusals to list
)

// Load lists the tools of one server, and the other lists that it declares. It makes at most 3
// attempts. The time limits are 10 s until the first page, 60 s for all pages, and 5 s for each
// page and handshake. Load ends 500 ms before the caller's deadline. It retries only transient
// failures. It always returns.
//
// If Load cannot read a list of prompts or resources, the outcome names the list and the load
// succeeds.
func (c *Client) Load(ctx context.Context, t Target) outcome.Outcome {
	return c.load(ctx, t, func(outcome.Outcome) {})
}

// load works like Load. It also calls note with the outcome of each attempt; note must not block.
func (c *Client) load(ctx context.Context, t Target, note func(outcome.Outcome)) outcome.Outcome {
	ended := make(chan outcome.Outcome, 1)
	go c.loadHere(ctx, t, note, func(out outcome.Outcome) { ended <- out })
	return <-ended
}

// loadHere works like load, but on the goroutine of its caller, on which it may stay if the load
// ignores its deadline. It calls ended once with the outcome, at most shortly after the deadline.
func (c *Client) loadHere(ctx context.Context, t Target, note, ended func(outcome.Outcome)) {
	start := c.o.Now()
	span := observe.StartSpan(ctx, observe.Load)
	ctx = span.Context
	l := load{operation: c.newOperation(t, true, session.Owner{}), caller: ctx, note: note, over: make(chan struct{})}
	first := c.limits.load
	if l.limit = c.limits.attempt; t.Command != nil && c.programs != nil {
		if out, ok := c.programs.idleListing(l.key, t.Command); ok {
			span.End()
			ended(out)
			return
		}
		// A load does not wait again for a program that has had the time of a whole load.
		if p := c.programs.starting(l.key, t.Command); p != nil && time.Since(p.started) > c.limits.program {
			span.End()
			ended(c.ended(span, opLoad, t, start, p.notStarted()))
			return
		}
		l.limit, first = c.limits.program, max(first, c.limits.program)
	}
	var cancel context.CancelFunc
	l.whole, cancel = c.within(ctx, c.limits.list)
	defer cancel()
	l.first, cancel = context.WithTimeout(l.whole, first)
	defer cancel()
	var once sync.Once
	end := func(out outcome.Outcome) {
		once.Do(func() {
			out.Memory = l.server.remembered()
			out = c.ended(span, opLoad, t, start, out)
			if t.Command != nil && c.programs != nil {
				c.programs.noteListing(l.key, t.Command, out)
			}
			span.End()
			ended(out)
		})
	}
	unwatched := context.AfterFunc(l.first, func() {
		if !l.ends() {
			out := classify(evidence{aborted: ctx.Err() != nil, expired: true})
			out.Attempts, out.Error = 1, "load did not stop at its deadline"
			out.Connected = t.Connected
			end(out)
		}
	})
	out := l.run()
	if out.Reason == outcome.ReasonTimeout && t.Command != nil && c.programs != nil {
		if p := c.programs.starting(l.key, t.Command); p != nil {
			out = p.notStarted()
		}
	}
	unwatched()
	close(l.over)
	end(out)
}

// A load is an operation that lists tools.
type load struct {
	*operation
	caller context.Context
	whole  context.Context // of the load
	first  context.Context // until the first page, because a silent server gets less time
	paged  atomic.Bool     // the first page has come
	over   chan struct{}   // closed when the load has ended
	note   func(outcome.Outcome)
}

// ends waits for the end of the load, after the time limit of the first page. It reports whether
// the load ended within its own time limit and a short grace time.
func (l *load) ends() bool {
	if l.paged.Load() {
		select {
		case <-l.over:
			return true
		case <-l.whole.Done():
		}
	}
	select {
	case <-l.over:
		return true
	case <-time.After(l.c.limits.grace):
		return false
	}
}

func (l *load) run() outcome.Outcome {
	defer l.release()
	l.server.refresh(l.c.o.Now())
	transient := func(out outcome.Outcome) bool { return out.Status == outcome.Transient && !l.t.Once }
	var found listing
	out, _ := l.retry(l.first, transient, func() (outcome.Outcome, error) {
		found = listing{before: l.cachedLists()}
		out, err := l.attempt(l.caller, l.whole, func() error {
			ctx, end := l.step(l.first)
			err := l.begin(ctx)
			end()
			if err != nil {
				return err
			}
			return l.list(listOfTools, &found)
		})
		l.note(out)
		return out, err
	})
	l.explain(&out)
	switch out.Connected = l.t.Connected; {
	case l.ep != nil:
		out.Connected = l.ep.token.Reveal() != ""
	case out.SignInEnded(), out.Reason == outcome.ReasonAuthzUnavailable:
		out.Connected = true // the endpoint is missing, because the token could not be read
	}
	if out.Status == outcome.Available {
		l.others(&out, &found)
		if err := l.conclude(&out, &found); err != nil { // parses an earlier page
			return classify(evidence{err: err})
		}
		l.server.breaker.report(l.c.o.Now(), out)
	}
	return out
}

// list adds all pages of one list to found.
func (l *load) list(kind listOf, found *listing) error {
	ctx := l.first
	if l.paged.Load() {
		ctx = l.whole
	}
	all := &pages{list: kind, before: found}
	var cursor json.RawMessage
	var began *mcpSession
	for page := 1; page <= maxPages; page++ {
		l.page = found.reader(all)
		result, err := l.do(ctx, func(on mcpSession) (message, error) {
			return message{method: kind.method, params: l.c.listParams(on, cursor)}, nil
		})
		if page == 1 {
			began = l.session
		} else if l.session != nil && l.session != began {
			// The server opened a new session half-way, and the cursor belonged to the old session.
			// There is only one such retry, so the loop ends.
			all, cursor, page = &pages{list: kind, before: found}, nil, 0
			continue
		}
		if rpc, ok := errors.AsType[*outcome.RPCError](err); ok && rpc.Code == mcp.CodeMethodNotFound && page == 1 && l.session != nil && kind.absent(l.session) {
			return nil
		}
		if err != nil {
			return err
		}
		l.paged.Store(true)
		ctx = l.whole
		all.stateless = l.session.modern
		if cursor, err = found.note(all, l.page, result); err != nil {
			return err
		}
		if cursor == nil {
			found.end(all)
			return nil
		}
	}
	return brokenProtocol("%s has more than %d pages", kind.method, maxPages)
}

// checkReferences refuses a definition that refers to another document.
func checkReferences(d tool.Definition) error {
	if err := signature.CheckReferences(d.InputSchema); err != nil {
		return fmt.Errorf("the input schema %w", err)
	}
	if err := signature.CheckReferences(d.OutputSchema); err != nil {
		return fmt.Errorf("the output schema %w", err)
	}
	return nil
}
