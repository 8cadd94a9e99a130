package decide

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/state"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// maxWriters is how many records one request reads or writes at once.
const maxWriters = 8

// A Decision is what a person decided about a tool.
type Decision struct {
	Action string    // one of approval's: approve, disable or enable
	Hash   tool.Hash // to approve: of the definition that was seen
	Rev    int64     // of the record that was seen; if it is another by now, nothing is decided. 0: whatever others decided meanwhile
	Note   string
}

func (d Decision) apply(r approval.Record, actor string, now time.Time) (approval.Record, approval.Entry, error) {
	said := approval.Said{Actor: actor, Note: d.Note}
	switch d.Action {
	case approval.ActionApprove:
		return approval.Approve(r, d.Hash, said, now)
	case approval.ActionDisable:
		return approval.Disable(r, said, now)
	}
	return approval.Enable(r, said, now)
}

// decide carries out dec on the tool's record, and returns the record as it is then.
func (d *Desk) decide(ctx context.Context, v *state.View, id tool.ID, dec Decision) (*approval.Record, error) {
	i, listed := v.Find(id)
	if listed && dec.Action != approval.ActionDisable && v.Verdict(i).Denied == lock.Yes {
		return nil, refuse(http.StatusConflict, "an operator's rule denies this tool; only the operator can change that")
	}
	r, err := d.stored(ctx, id)
	switch {
	case errors.Is(err, approval.ErrNotFound) && listed:
		return nil, refuse(http.StatusConflict, "the tool has no approval record yet; the next sync makes one")
	case errors.Is(err, approval.ErrNotFound):
		return nil, refuse(http.StatusNotFound, "no tool of this name is known")
	case err != nil:
		return nil, err
	}
	next, entry, err := dec.apply(*r, ActorOf(ctx), d.o.Now())
	if err != nil {
		return nil, err // what was seen changed, which says more than that the record did
	}
	if dec.Rev != 0 && dec.Rev != r.Rev {
		return nil, refuse(http.StatusConflict, changedSince(r))
	}
	after, err := d.approvals.Put(ctx, next, &entry)
	return &after, err
}

// stored returns the tool's record in the store. One that the store lost is restored first, so that
// no decision is lost by the next one.
func (d *Desk) stored(ctx context.Context, id tool.ID) (*approval.Record, error) {
	r, err := d.approvals.Get(ctx, id)
	held := &r
	if errors.Is(err, approval.ErrNotFound) {
		held = nil
	} else if err != nil {
		return nil, err
	}
	if snap := d.states.Load(ctx).Catalog; snap != nil {
		if i, ok := snap.Find(id); ok && snap.Lost(i, held) {
			return catalog.Recover(ctx, d.approvals, snap, i, held, d.o.Now)
		}
	}
	return held, err
}

// changedSince tells a person who saw an earlier revision how the record is now. A sync may have
// changed it last.
func changedSince(r *approval.Record) string {
	now := "its definition is approved"
	if r.ApprovedHash != r.CurrentHash {
		now = "its definition waits for approval"
	}
	if r.Disabled {
		now = "it is disabled"
	}
	return fmt.Sprintf("the tool was decided about or changed since it was shown, and nothing was done now: %s; the last decision is by %s, at %s", now, r.By, r.At.UTC().Format(time.DateTime+" UTC"))
}

// Decide carries out dec in the name of the request's actor, lets requests of this process see it at
// once, and returns the tool as it is then.
func (d *Desk) Decide(ctx context.Context, id tool.ID, dec Decision) (Tool, error) {
	r, err := d.decide(ctx, d.View(ctx), id, dec)
	if err != nil {
		return Tool{}, err
	}
	return d.show(d.states.Refresh(ctx).View(d.o.Agent), id, r), nil
}

// An Item is one tool of several that are decided about together.
type Item struct {
	ID   tool.ID
	Hash tool.Hash
	Rev  int64
}

// A Result is what became of one [Item]: the tool as it is then, or why nothing was decided.
type Result struct {
	Tool Tool
	Err  *Error // nil: it was decided
}

// DecideAll carries out one action on each item by itself: one that changed meanwhile does not stop
// the others. The results are in the order of the items.
func (d *Desk) DecideAll(ctx context.Context, action, note string, items []Item) []Result {
	v := d.View(ctx)
	records, out := make([]*approval.Record, len(items)), make([]Result, len(items))
	var g errgroup.Group
	g.SetLimit(maxWriters)
	for n, t := range items {
		g.Go(func() error {
			r, err := d.decide(ctx, v, t.ID, Decision{action, t.Hash, t.Rev, note})
			if err != nil {
				out[n].Err = d.Explain(ctx, "decide-all", err)
			} else {
				records[n] = r
			}
			return nil
		})
	}
	_ = g.Wait() // each says in its place what became of it
	v = d.states.Refresh(ctx).View(d.o.Agent)
	for n, r := range records {
		if r != nil {
			out[n].Tool = d.show(v, r.ID(), r)
		}
	}
	return out
}

// HasServer reports whether a server of this name is configured.
func (d *Desk) HasServer(ctx context.Context, name string) bool { return hasServer(d.View(ctx), name) }
