package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/session"
	"github.com/portcullis-mcp/portcullis/pkg/signature"
	"github.com/portcullis-mcp/portcullis/pkg/text"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

const (
	maxPages   = 64       // of one tools/list
	maxListing = 16 << 20 // bytes of all its pages
	maxTools   = 10_000   // that all its pages list
	maxRefused = 100      // refusals that are listed
)

// Load lists the tools of one server, with retries: at most 3 attempts, in 10 s until a first
// page has come and in 60 s altogether, and never past the caller's deadline less 500 ms. In
// each attempt the handshake has 5 s, and so has every page. Only a transient failure is tried
// again. Whatever happens inside, Load returns.
func (c *Client) Load(ctx context.Context, t Target) outcome.Outcome {
	return c.load(ctx, t, func(outcome.Outcome) {})
}

// load is Load. met is told how each attempt ended; it must not block.
func (c *Client) load(ctx context.Context, t Target, met func(outcome.Outcome)) outcome.Outcome {
	start := c.o.Now()
	l := load{operation: c.newOperation(t, true, session.Owner{}), caller: ctx, met: met, done: make(chan outcome.Outcome, 1)}
	first := c.limits.load
	if l.limit = c.limits.attempt; t.Command != nil {
		l.limit, first = c.limits.program, max(first, c.limits.program)
	}
	var cancel context.CancelFunc
	l.whole, cancel = c.within(ctx, c.limits.list)
	defer cancel()
	l.first, cancel = context.WithTimeout(l.whole, first)
	defer cancel()
	// In a goroutine of its own, so that what ignores its deadline is left behind.
	go func() { l.done <- l.run() }()
	out, ended := l.wait()
	if !ended {
		out = classify(evidence{aborted: ctx.Err() != nil, expired: true})
		out.Attempts, out.Error = 1, "load did not stop at its deadline"
	}
	out.Memory = l.server.remembered()
	return c.ended(ctx, "load", t, start, out)
}

// A load is an operation that lists tools.
type load struct {
	*operation
	caller context.Context
	whole  context.Context // of the load
	first  context.Context // until a first page has come: a server that says nothing is not waited for
	paged  atomic.Bool     // it has
	done   chan outcome.Outcome
	met    func(outcome.Outcome)
}

// wait returns how the load ended; not ended, if it goes on after its time.
func (l *load) wait() (out outcome.Outcome, ended bool) {
	select {
	case out = <-l.done:
		return out, true
	case <-l.first.Done():
	}
	if l.paged.Load() {
		select {
		case out = <-l.done:
			return out, true
		case <-l.whole.Done():
		}
	}
	select {
	case out = <-l.done:
		return out, true
	case <-time.After(l.c.limits.grace):
		return out, false
	}
}

func (l *load) run() outcome.Outcome {
	defer l.release()
	transient := func(out outcome.Outcome) bool { return out.Status == outcome.Transient && !l.t.Once }
	out, _ := l.retry(l.first, transient, func() (outcome.Outcome, error) {
		var found listing
		out, err := l.attempt(l.caller, l.whole, func() error {
			ctx, end := l.step(l.first)
			err := l.begin(ctx)
			end()
			if err != nil {
				return err
			}
			found, err = l.list()
			return err
		})
		out.Tools, out.Refused = found.tools, found.refused
		l.met(out)
		return out, err
	})
	if out.Status == outcome.Available {
		l.server.breaker.report(l.c.o.Now(), out)
	}
	return out
}

// list reads all pages of tools/list.
func (l *load) list() (listing, error) {
	var found listing
	ctx := l.first
	var cursor json.RawMessage
	var began *mcpSession
	for page := 1; page <= maxPages; page++ {
		result, err := l.do(ctx, func(on mcpSession) (message, error) {
			return message{method: mcp.MethodListTools, params: l.c.listParams(on, cursor)}, nil
		})
		if page == 1 {
			began = l.session
		} else if l.session != nil && l.session != began {
			// A new session was opened half-way, and the cursor belonged to the old
			// one. A second chance is had once only, so this ends.
			found, cursor, page = listing{}, nil, 0
			continue
		}
		if rpc, ok := errors.AsType[*outcome.RPCError](err); ok && rpc.Code == mcp.CodeMethodNotFound && page == 1 && l.session != nil && !l.session.tools {
			return listing{}, nil // the server offers no tools, and said so
		}
		if err != nil {
			return listing{}, err
		}
		l.paged.Store(true)
		ctx = l.whole
		if cursor, err = found.add(result); err != nil {
			return listing{}, err
		}
		if cursor == nil {
			return found, nil
		}
	}
	return listing{}, brokenProtocol("tools/list has more than %d pages", maxPages)
}

// A listing is what the pages of one tools/list add up to.
type listing struct {
	tools   []tool.Definition
	refused []outcome.Refusal
	names   map[string]bool
	cursors []string
	size    int
	listed  int // tools, taken or refused
}

// add takes one page and returns the cursor of the next, nil if it was the last.
func (l *listing) add(result json.RawMessage) (json.RawMessage, error) {
	if l.size += len(result); l.size > maxListing {
		return nil, brokenProtocol("tools/list is longer than %d bytes", maxListing)
	}
	page, err := rawjson.Split(result, rawjson.Lenient)
	tools, next := page.Get("tools"), page.Get("nextCursor")
	list, bad := rawjson.Elements(tools)
	if err != nil || bad != nil {
		return nil, brokenProtocol("tools/list: the result has no list of tools")
	}
	if l.listed += len(list); l.listed > maxTools { // each costs a record, for good
		return nil, brokenProtocol("tools/list has more than %d tools", maxTools)
	}
	for _, raw := range list {
		l.take(raw)
	}
	switch {
	case next == nil, string(next) == "null", string(next) == `""`:
		return nil, nil
	case next[0] != '"':
		return nil, brokenProtocol("tools/list: the cursor is not a string")
	case slices.Contains(l.cursors, string(next)):
		return nil, brokenProtocol("tools/list: a cursor came twice")
	}
	l.cursors = append(l.cursors, string(next))
	return next, nil
}

// take adds one definition, or the reason why it is not taken. One bad tool
// does not fail its server.
func (l *listing) take(raw json.RawMessage) {
	d, err := tool.ParseDefinition(raw)
	if err == nil {
		_, err = tool.HeaderParams(d.InputSchema)
	}
	if err == nil {
		err = checkReferences(d)
	}
	if err == nil && l.names[d.Name] {
		err = errors.New("the server lists another tool of that name before it")
	}
	if err != nil {
		if len(l.refused) < maxRefused {
			l.refused = append(l.refused, outcome.Refusal{
				Name:   text.Quote(rawjson.Text(rawjson.Get(raw, "name")), 100), // what does not read has no name
				Reason: text.Clip(err.Error(), 240),
			})
		}
		return
	}
	if l.names == nil {
		l.names = map[string]bool{}
	}
	l.names[d.Name] = true
	l.tools = append(l.tools, d)
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
