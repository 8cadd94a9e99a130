package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

const (
	// maxWriters is how many records are written at the same time, and how many servers' records
	// are read at the same time.
	maxWriters = 16

	// maxBatch and maxBatchSize are how many records, and bytes of definitions, one call writes to
	// a store that takes batches. Readers wait until the call ends.
	maxBatch     = 128
	maxBatchSize = 1 << 20

	// maxRefused is how many refused tools of one server an outcome keeps, because the server
	// chooses their number.
	maxRefused = 50

	// maxRecorded is how many bytes of one server are recorded: its definitions, and recordSize for
	// each record. Records outlive their tools: a server that renames its tools at every sync would
	// fill the store, and the memory of every later sync.
	maxRecorded = 64 << 20
	recordSize  = 1 << 10
)

// take stores in l the outcome of the load, and the tools and other items, which have unique ids.
func (l *serverRun) take(o outcome.Outcome) {
	loaded := l.outcome.LoadedAt
	if l.outcome.Status == outcome.Available { // an earlier version did not store LoadedAt
		loaded = l.outcome.CheckedAt
	}
	l.outcome = o
	l.outcome.Tools, l.outcome.Items, l.outcome.Nested = nil, nil, nil
	l.outcome.Lists, l.outcome.Same, l.digest, l.omitted = "", false, o.Lists, o.Same
	if l.outcome.LoadedAt = loaded; o.Status == outcome.Available {
		l.outcome.LoadedAt = o.CheckedAt
	}
	l.outcome.Refused = slices.Clone(o.Refused)
	if o.Status != outcome.Available {
		return
	}
	l.loaded = true
	l.tools = make([]ToolInput, 0, len(o.Tools)+len(o.Items))
	for _, list := range [][]tool.Definition{o.Tools, o.Items} {
		for _, d := range list {
			l.tools = append(l.tools, ToolInput{Definition: d})
		}
	}
	for _, d := range o.Nested {
		l.nested = append(l.nested, ToolInput{Definition: d})
	}
	if n := len(l.outcome.Refused) - maxRefused; n > 0 {
		l.outcome.Refused = append(l.outcome.Refused[:maxRefused], outcome.Refusal{Reason: fmt.Sprintf("and %d more", n)})
	}
}

func (l *serverRun) refuse(id tool.ID, reason string) {
	l.refused = true
	l.outcome.Refused = append(l.outcome.Refused, outcome.Refusal{Name: strconv.Quote(id.Name), Kind: id.Kind, Reason: reason})
}

// each calls the function do for every item, [maxWriters] at the same time. It stops at the first
// error.
func each[T any](ctx context.Context, items iter.Seq[T], do func(context.Context, T) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxWriters)
	for item := range items {
		g.Go(func() error { return do(ctx, item) })
	}
	return g.Wait()
}

func (u *unit) remember(held *approval.Record) {
	if bytes.Equal(held.Approved, held.Current) {
		// share one copy in memory: most current definitions are the approved definitions
		held.Approved = held.Current
	}
	u.records[held.ID()] = held
}

// wrote calls remember for a record that was written, under the unit's lock.
func (u *unit) wrote(held *approval.Record) {
	u.mine.Lock()
	defer u.mine.Unlock()
	u.remember(held)
}

// An observation is a tool, or another item, whose record has to be written.
type observation struct {
	list *serverRun
	held *approval.Record // as last read or written; nil: none
	seen approval.Observation
}

// observe compares every loaded definition with its record, and writes the records that change,
// then the baselines.
func (u *unit) observe(ctx context.Context) error {
	var due []observation
	var baselines []approval.Baseline
	recorded := map[string]int{} // bytes, by server
	for id, held := range u.records {
		recorded[id.Server] += len(held.Current) + recordSize
	}
	for _, l := range u.servers {
		if err := u.findForgotten(ctx, l); err != nil {
			return err
		}
		if !l.loaded {
			continue
		}
		l.kinds = map[approval.Kind]bool{}
		for _, t := range l.tools {
			l.kinds[approval.KindOf(t.Definition.Kind)] = true
		}
		first, taken, err := u.firstLists(ctx, l, l.kinds, u.reused(l))
		if err != nil {
			return err
		}
		baselines = append(baselines, taken...)
		for _, t := range l.nested { // a known item is kept if it is too deeply nested now; a new one is refused
			if u.records[t.Definition.ID(l.server.Name)] != nil {
				l.tools = append(l.tools, t)
			}
		}
		due = append(due, u.observations(l, first, maxRecorded-recorded[l.server.Name])...)
		due = append(due, u.unlisted(l)...)
	}
	return u.batchWriter.write(ctx, u.run, due, baselines)
}

func (r *run) putBaselines(ctx context.Context, due []approval.Baseline) error {
	if len(due) == 0 {
		return nil
	}
	if err := r.firsts.PutBaselines(ctx, due); err != nil {
		return fmt.Errorf("store baselines: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range due {
		r.baselines[b.Key()] = true
	}
	return nil
}

// observations returns the items of l whose records change, and refuses items that no store would
// accept. first has the kinds whose first list l has loaded; room limits the records of new tools,
// in bytes.
func (u *unit) observations(l *serverRun, first map[approval.Kind]bool, room int) (due []observation) {
	full := false
	l.tools = slices.DeleteFunc(l.tools, func(t ToolInput) bool {
		id := t.Definition.ID(l.server.Name)
		before := id
		before.Server = l.from
		baseline, fresh := first[approval.KindOf(id.Kind)]
		seen := approval.Observation{
			ID:         id,
			URL:        l.server.URL,
			Release:    releaseOf(l.server),
			Definition: t.Definition.Raw,
			Hash:       t.Definition.Hash,
			Mode:       approval.Mode(l.server.ApprovalOf(id.Kind)),
			Remember:   u.config.Value.Review.Remember == "auto",
			TwoPeople:  u.config.Value.TakesTwo(l.server.Name, t.Definition),
			Baseline:   baseline,
			IsLost:     fresh && l.forgot,
			From:       u.records[before],
			Others:     u.otherRecords(l, id),
			Now:        u.began,
		}
		held := u.records[seen.ID]
		next, _, changed := approval.Observe(held, seen)
		if !changed {
			return false
		}
		if err := next.Check(); err != nil {
			l.refuse(id, err.Error())
			return true
		}
		if held == nil {
			if room -= len(next.Current) + recordSize; room < 0 {
				if !full {
					l.refuse(id, "its server has listed too many different tools, so the gateway accepts no new one")
				}
				full = true
				return true
			}
		}
		due = append(due, observation{l, held, seen})
		return false
	})
	return due
}

// releaseOf returns the package version that a server starts; zero: none.
func releaseOf(s config.Server) (r approval.Release) {
	if s.Command == nil {
		return r
	}
	if r.Family, r.Version = s.Command.Release(); r.Family != "" {
		r.URL = s.URL
	}
	return r
}

// recordAll writes the records. If a write fails, it returns the error, and the next run writes the
// rest.
func (r *run) recordAll(ctx context.Context, due []observation) error {
	due, err := r.recordTogether(ctx, due)
	if err != nil {
		return err
	}
	return each(ctx, slices.Values(due), func(ctx context.Context, d observation) error {
		return r.inTurn(ctx, func() error { return r.record(ctx, d) })
	})
}

// recordTogether writes records in few calls if the store takes batches, and returns the
// observations that remain.
func (r *run) recordTogether(ctx context.Context, due []observation) (rest []observation, err error) {
	b, ok := r.approvals.(approval.Batcher)
	for ok && len(due) > 0 && err == nil {
		n := batch(due)
		err = r.inTurn(ctx, func() error {
			left, err := r.recordBatch(ctx, b, due[:n])
			rest = append(rest, left...)
			return err
		})
		due = due[n:]
	}
	return append(rest, due...), err
}

// batch returns how many of the first records are written in one call.
func batch(due []observation) int {
	size := 0
	for i, d := range due {
		if size += len(d.seen.Definition) + recordSize; i > 0 && (i == maxBatch || size > maxBatchSize) {
			return i
		}
	}
	return len(due)
}

// recordBatch writes records in one call, and returns the observations that must be compared again.
func (r *run) recordBatch(ctx context.Context, b approval.Batcher, due []observation) (rest []observation, err error) {
	writes, of := make([]approval.Write, 0, len(due)), make([]observation, 0, len(due))
	for _, d := range due {
		next, entry, changed := approval.Observe(d.held, d.seen)
		if !changed {
			rest = append(rest, d)
			continue
		}
		writes, of = append(writes, approval.Write{Record: next, Entry: entry}), append(of, d)
	}
	if len(writes) == 0 {
		return rest, nil
	}
	written, err := b.PutAll(ctx, writes)
	if errors.Is(err, errors.ErrUnsupported) {
		return due, nil
	}
	if err != nil {
		return nil, fmt.Errorf("record %q and the rest of its batch: %w", of[0].seen.ID, err)
	}
	for i, d := range of {
		switch failed := written[i].Err; {
		case failed == nil:
			d.list.unit.count(d, d.held, &written[i].Record)
		case errors.Is(failed, approval.ErrConflict):
			rest = append(rest, d)
		case err == nil: // the loop continues: later records of the batch may be stored, and count
			err = fmt.Errorf("record %q: %w", d.seen.ID, failed)
		}
	}
	return rest, err
}

// record writes one record.
func (r *run) record(ctx context.Context, d observation) error {
	var before *approval.Record
	after, err := approval.Update(ctx, r.approvals, d.seen.ID, d.held, func(held *approval.Record) (*approval.Record, *approval.Entry, error) {
		before = held
		next, entry, changed := approval.Observe(held, d.seen)
		if !changed {
			return nil, nil, nil
		}
		return &next, entry, nil
	})
	if err != nil {
		return fmt.Errorf("record %q: %w", d.seen.ID, err)
	}
	d.list.unit.count(d, before, after)
	return nil
}

// count keeps a record that was written, and counts a new or changed definition.
func (u *unit) count(d observation, before, after *approval.Record) {
	u.wrote(after)
	u.mine.Lock()
	defer u.mine.Unlock()
	c := &d.list.counts
	fresh, changed := &c.New, &c.Changed
	if after.Kind != tool.Tool {
		fresh, changed = &c.NewItems, &c.ChangedItems
	}
	switch {
	case before == nil:
		*fresh++
	case before.CurrentHash != after.CurrentHash:
		*changed++
	default:
		return
	}
	// The first list of a new server is not news for the operator, and neither is an item of a
	// server that only has a new name.
	if baseline := after.By == approval.Sync && after.State == approval.Approved; before != nil || d.seen.From == nil && !baseline {
		c.News = append(c.News, News{ID: after.ID(), New: before == nil, Rev: after.Rev})
	}
}
