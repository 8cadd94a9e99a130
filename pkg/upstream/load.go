package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

const (
	maxPages   = 64       // of one tools/list
	maxListing = 16 << 20 // bytes of all its pages
	maxTools   = 10_000   // that all its pages list
	maxRefused = 100      // refusals that are told one by one
)

// Load lists the tools of one server, with retries: at most 3 attempts, in 10 s until a first
// page has come and in 60 s altogether, and never past the caller's deadline less 500 ms. In
// each attempt the handshake has 5 s, and so has every page. Only a transient failure is tried
// again. Whatever happens inside, Load returns.
func (c *Client) Load(ctx context.Context, t Target) outcome.Outcome {
	return c.loadOne(ctx, t, func(Verdict) {})
}

// loadOne is Load. met is told how each attempt ended; it must not block.
func (c *Client) loadOne(ctx context.Context, t Target, met func(Verdict)) outcome.Outcome {
	start := c.o.Now()
	l := load{once: t.Once, met: met, op: c.newLoad(t), caller: ctx, paged: make(chan struct{}), done: make(chan outcome.Outcome, 1)}
	l.limit = c.limits.attempt
	var cancel context.CancelFunc
	l.whole, cancel = c.within(ctx, c.limits.list)
	defer cancel()
	l.first, cancel = context.WithTimeout(l.whole, c.limits.load)
	defer cancel()
	// In a goroutine of its own, so that what ignores its deadline is left behind.
	go func() { l.done <- l.run() }()
	out, ended := l.wait()
	if !ended {
		v := Classify(Evidence{Aborted: ctx.Err() != nil, Expired: true, Err: errGaveUp})
		out = outcome.Outcome{Status: v.Status, Reason: v.Reason, Attempts: 1, Error: errGaveUp.Error()}
	}
	out.ServerID, out.CheckedAt, out.Memory = t.ID, c.o.Now(), l.peer.keepsake()
	out.Duration = out.CheckedAt.Sub(start)
	c.ended(ctx, "load", out)
	return out
}

// A load is one op that lists tools.
type load struct {
	*op
	caller context.Context
	whole  context.Context // of the load
	first  context.Context // until a first page has come: a server that says nothing is not waited for
	paged  chan struct{}   // closed then
	begun  sync.Once       // closes it
	done   chan outcome.Outcome
	once   bool // there is one attempt
	met    func(Verdict)
}

// wait returns how the load ended; not ended, if it goes on after its time.
func (l *load) wait() (out outcome.Outcome, ended bool) {
	paged, over := l.paged, l.first.Done()
	for {
		select {
		case out = <-l.done:
			return out, true
		case <-paged:
			paged, over = nil, l.whole.Done()
			continue
		case <-over:
		}
		if paged != nil && closed(paged) {
			continue
		}
		grace := time.NewTimer(l.c.limits.grace)
		defer grace.Stop()
		select {
		case out = <-l.done:
			return out, true
		case <-grace.C:
			return outcome.Outcome{}, false
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (l *load) run() (out outcome.Outcome) {
	var err error
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p}
			v := Classify(Evidence{Err: err})
			out = outcome.Outcome{Status: v.Status, Reason: v.Reason, Attempts: max(out.Attempts, 1)}
		}
		if err != nil && out.Status != outcome.Available {
			out.Error = l.text(err)
		}
	}()
	transient := func(v Verdict) bool { return v.Status == outcome.Transient && !l.once }
	v, attempts := l.c.retry(l.first, transient, func() Verdict {
		out.Attempts++
		ctx, end := l.step(l.first)
		err = l.begin(ctx)
		end()
		if err == nil {
			out.Tools, out.Refused, err = l.list()
		}
		v := l.verdict(l.caller, l.whole, err)
		l.met(v)
		return v
	})
	if l.nothingSent(v) {
		attempts = 0
	}
	if v.Status == outcome.Available {
		v.HTTPStatus = 0
		l.peer.report(l.c.o.Now(), v)
	}
	out.Status, out.Reason, out.HTTPStatus, out.RetryAfter = v.Status, v.Reason, v.HTTPStatus, v.RetryAfter
	out.Attempts = attempts
	return out
}

// list reads all pages of tools/list.
func (l *load) list() ([]tool.Definition, []outcome.Refusal, error) {
	var found listing
	ctx := l.first
	var cursor json.RawMessage
	var began *leg
	for page := 1; page <= maxPages; page++ {
		result, err := l.do(ctx, func(on leg) (message, error) {
			return message{method: "tools/list", params: l.c.listParams(on, cursor)}, nil
		})
		if page == 1 {
			began = l.leg
		} else if l.leg != nil && l.leg != began {
			// A new session was opened half-way, and the cursor belonged to the old
			// one. A second chance is had once only, so this ends.
			found, cursor, page = listing{}, nil, 0
			continue
		}
		if rpc, ok := errors.AsType[*RPCError](err); ok && rpc.Code == codeMethodNotFound && page == 1 && l.leg != nil && !l.leg.tools {
			return nil, nil, nil // the server offers no tools, and said so
		}
		if err != nil {
			return nil, nil, err
		}
		l.begun.Do(func() { close(l.paged) })
		ctx = l.whole
		if cursor, err = found.add(result); err != nil {
			return nil, nil, err
		}
		if cursor == nil {
			return found.tools, found.refused, nil
		}
	}
	return nil, nil, brokenProtocol("tools/list has more than %d pages", maxPages)
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
	var list []json.RawMessage
	if err != nil || len(tools) == 0 || tools[0] != '[' || json.Unmarshal(tools, &list) != nil {
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
			l.refused = append(l.refused, outcome.Refusal{Name: shownName(raw), Reason: string(cut([]byte(err.Error()), 256))})
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
	if err := tool.CheckReferences(d.InputSchema); err != nil {
		return fmt.Errorf("the input schema %w", err)
	}
	if err := tool.CheckReferences(d.OutputSchema); err != nil {
		return fmt.Errorf("the output schema %w", err)
	}
	return nil
}

// shownName returns the name that a refused definition gives itself, quoted and cut.
func shownName(raw json.RawMessage) string {
	name := rawjson.Text(rawjson.Get(raw, "name")) // what does not read has no name
	return string(cut(fmt.Appendf(nil, "%q", name), 128))
}
