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
	maxListed  = 10_000   // tools, or other items, that all its pages list
	maxRefused = 100      // refusals that are listed
)

// Load lists the tools of one server, and what else it declares, with retries: at most 3 attempts, in 10 s until a first
// page has come and in 60 s altogether, and never past the caller's deadline less 500 ms. In
// each attempt the handshake has 5 s, and so has every page. Only a transient failure is tried
// again. Whatever happens inside, Load returns.
//
// A list of prompts or resources that cannot be read is named in the outcome and fails no load.
func (c *Client) Load(ctx context.Context, t Target) outcome.Outcome {
	return c.load(ctx, t, func(outcome.Outcome) {})
}

// load is Load. met is told how each attempt ended; it must not block.
func (c *Client) load(ctx context.Context, t Target, met func(outcome.Outcome)) outcome.Outcome {
	ended := make(chan outcome.Outcome, 1)
	go c.loadHere(ctx, t, met, func(out outcome.Outcome) { ended <- out })
	return <-ended
}

// loadHere is load on a goroutine that it may keep: what ignores its deadline is left behind. It calls ended
// once with the outcome, soon after the deadline at the latest.
func (c *Client) loadHere(ctx context.Context, t Target, met, ended func(outcome.Outcome)) {
	start := c.o.Now()
	span := observe.StartSpan(ctx, observe.Load)
	ctx = span.Context
	l := load{operation: c.newOperation(t, true, session.Owner{}), caller: ctx, met: met, over: make(chan struct{})}
	first := c.limits.load
	if l.limit = c.limits.attempt; t.Command != nil && c.programs != nil {
		if out, ok := c.programs.idleListing(l.key, t.Command); ok {
			span.End()
			ended(out)
			return
		}
		if p := c.programs.starting(l.key, t.Command); p != nil && time.Since(p.started) > c.limits.program {
			span.End()
			ended(c.ended(span, "load", t, start, p.notStarted())) // it has what it is to answer
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
			out = c.ended(span, "load", t, start, out)
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
	first  context.Context // until a first page has come: a server that says nothing is not waited for
	paged  atomic.Bool     // it has
	over   chan struct{}   // closed when the load has ended
	met    func(outcome.Outcome)
}

// ends waits, from the time on at which a first page should have come, and reports whether the load ended
// no later than shortly after its time.
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
		l.met(out)
		return out, err
	})
	l.explain(&out)
	if out.Status == outcome.Available {
		l.others(&out, &found)
		if err := l.conclude(&out, &found); err != nil { // a page that was parsed before
			return classify(evidence{err: err})
		}
		l.server.breaker.report(l.c.o.Now(), out)
	}
	return out
}

// list adds all pages of one list to what was found.
func (l *load) list(of listOf, found *listing) error {
	ctx := l.first
	if l.paged.Load() {
		ctx = l.whole
	}
	all := &pages{of: of, before: found}
	var cursor json.RawMessage
	var began *mcpSession
	for page := 1; page <= maxPages; page++ {
		l.page = found.reader(all)
		result, err := l.do(ctx, func(on mcpSession) (message, error) {
			return message{method: of.method, params: l.c.listParams(on, cursor)}, nil
		})
		if page == 1 {
			began = l.session
		} else if l.session != nil && l.session != began {
			// A new session was opened half-way, and the cursor belonged to the old
			// one. A second chance is had once only, so this ends.
			all, cursor, page = &pages{of: of, before: found}, nil, 0
			continue
		}
		if rpc, ok := errors.AsType[*outcome.RPCError](err); ok && rpc.Code == mcp.CodeMethodNotFound && page == 1 && l.session != nil && of.absent(l.session) {
			return nil
		}
		if err != nil {
			return err
		}
		l.paged.Store(true)
		ctx = l.whole
		if cursor, err = found.note(all, l.page, result); err != nil {
			return err
		}
		if cursor == nil {
			found.end(all)
			return nil
		}
	}
	return brokenProtocol("%s has more than %d pages", of.method, maxPages)
}

// checkReferences refuses a definition of which a part lies elsewhere.
func checkReferences(d tool.Definition) error {
	if err := signature.CheckReferences(d.InputSchema); err != nil {
		return fmt.Errorf("the input schema %w", err)
	}
	if err := signature.CheckReferences(d.OutputSchema); err != nil {
		return fmt.Errorf("the output schema %w", err)
	}
	return nil
}
