package decide

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxWriters limits how many records one request reads or writes at the same time.
const maxWriters = 8

// forEach calls the function do with every number below n, with at most maxWriters calls at once.
func forEach(n int, do func(i int)) {
	var g errgroup.Group
	g.SetLimit(maxWriters)
	for i := range n {
		g.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = g.Wait() // do returns no error
}

// MaxItems is how many items one request can decide about.
const MaxItems = 500

// A Decision is what a person decided about a tool, a prompt or a resource.
type Decision struct {
	Action string    // one of [Actions] or [bulkActions]
	Hash   tool.Hash // of the definition that the person saw; approve, block and unblock need it
	Rev    int64     // of the record that the person saw; 0: any, except for undo
	Note   string
	Tell   bool // agents may see the note
	Shown  ViewMethod
	many   bool // one of several decisions in one request
}

// Actions returns what a person can do with one item.
func Actions() []string {
	return []string{
		approval.ActionApprove, approval.ActionBlock, approval.ActionUnblock, approval.ActionDisable, approval.ActionEnable, approval.ActionUndo,
	}
}

// bulkActions returns what a person can do with many items in one request.
func bulkActions() []string {
	return []string{
		approval.ActionApprove, approval.ActionBlock, approval.ActionDisable,
		approval.ActionEnable, approval.ActionUndo, ActionCarry,
	}
}

// approves reports whether the decision approves a definition.
func (d Decision) approves() bool {
	return d.Action == approval.ActionApprove || d.Action == ActionCarry
}

// opens reports whether the decision could make an item callable. Undo is excluded: it restores an
// earlier state.
func (d Decision) opens() bool {
	return d.approves() || d.Action == approval.ActionEnable || d.Action == approval.ActionUnblock
}

// namesHash reports whether the decision is about one definition only.
func (d Decision) namesHash() bool {
	return d.approves() || d.Action == approval.ActionBlock || d.Action == approval.ActionUnblock
}

// apply carries out d on r. fourEyes says that an approval takes two people.
func (d Decision) apply(r approval.Record, by Actor, fourEyes bool, now time.Time) (approval.Record, approval.Entry, error) {
	statement := approval.Author{Actor: by.Name, Subject: by.Subject, Tell: d.Tell}
	if !text.Blank(d.Note) {
		statement.Note = strings.TrimSpace(d.Note)
	}
	switch d.Action {
	case approval.ActionApprove, ActionCarry:
		if fourEyes {
			return approval.ApproveFourEyes(r, d.Hash, statement, now)
		}
		return approval.Approve(r, d.Hash, statement, now)
	case approval.ActionBlock:
		return approval.Block(r, d.Hash, statement, now)
	case approval.ActionUnblock:
		return approval.Unblock(r, d.Hash, statement, now)
	case approval.ActionDisable:
		return approval.Disable(r, statement, now)
	case approval.ActionUndo:
		return approval.UndoDecision(r, d.Rev, by.Name, now)
	}
	return approval.Enable(r, statement, now)
}

// decide carries out dec on the item's record and returns the changed record. It reads no record
// for a person who may not decide about the item.
func (d *Service) decide(ctx context.Context, v *state.View, id tool.ID, dec Decision) (*approval.Record, error) {
	f := d.factsOf(ctx, v, id, nil)
	if o := cmp.Or(inRequest(f, dec), inRights(f, dec)); o != nil {
		return nil, dec.refused(o.Code, o.Detail)
	}
	r, err := d.storedRecord(ctx, id)
	if err != nil {
		return nil, err
	}
	f = d.factsOf(ctx, v, id, r)
	if o := Obstacle(f, dec); o != nil {
		e := dec.refused(o.Code, o.Detail)
		if o.Code == DefinitionChanged || o.Code == RecordChanged {
			e.Seen = definitionOf(v, r, dec.Hash)
		}
		return nil, e
	}
	next, entry, err := dec.apply(*r, f.Actor, f.TakesTwo, f.Now)
	if err != nil {
		return nil, err
	}
	if entry.Source = f.Actor.Source; dec.Action == approval.ActionApprove {
		entry.Shown = string(dec.Shown)
	} else if dec.Action == ActionCarry {
		entry.Note = carryNote(r, entry.Note)
	}
	next, err = d.approvals.Put(ctx, next, &entry)
	switch {
	case errors.Is(err, approval.ErrConflict):
		return nil, dec.refused(Conflict, conflictSentence(id.Kind.String()))
	case err != nil:
		return nil, err
	}
	return &next, nil
}

// refused returns the error of a decision that was not carried out.
func (dec Decision) refused(code Code, sentence string) *Error {
	return refused(code, cmp.Or(map[string]string{approval.ActionUndo: "nothing was undone: "}[dec.Action], "nothing was decided: ")+sentence)
}

// record returns the item's record in the store; nil if there is none.
func (d *Service) record(ctx context.Context, id tool.ID) (*approval.Record, error) {
	r, err := d.approvals.Get(ctx, id)
	if errors.Is(err, approval.ErrNotFound) {
		return nil, nil
	}
	return &r, err
}

// storedRecord returns the item's record in the store. If the store lost the record, storedRecord
// restores it first, so that the next decision builds on it.
func (d *Service) storedRecord(ctx context.Context, id tool.ID) (*approval.Record, error) {
	found, err := d.record(ctx, id)
	if err != nil {
		return nil, err
	}
	if snap := d.states.Load(ctx).Catalog; snap != nil {
		if i, ok := snap.Find(id); ok && snap.IsLost(i, found) {
			return catalog.Recover(ctx, d.approvals, snap, i, found, d.o.Now)
		}
	}
	return found, nil
}

// Decide carries out dec in the name of the request's actor, and returns the changed item. Later
// requests to this process see the change.
func (d *Service) Decide(ctx context.Context, id tool.ID, dec Decision) (Tool, error) {
	r, err := d.decide(ctx, d.View(ctx), id, dec)
	if err != nil {
		return Tool{}, err
	}
	return d.show(ctx, d.states.Refresh(ctx).View(d.o.Agent), id, r), nil
}

// An Item is one of several items in a request.
type Item struct {
	ID    tool.ID
	Hash  tool.Hash
	Rev   int64
	Shown ViewMethod
}

// A Result says what happened to one [Item]: its new state, or why nothing was decided.
type Result struct {
	Tool Tool
	Err  *Error // nil: the decision was carried out
}

// DecideAll carries out one decision on each item separately, with the hash and the revision that
// the item names. If an item has changed since, only that item fails. The results have the order of
// the items. If DecideAll returns an error, it has decided nothing.
func (d *Service) DecideAll(ctx context.Context, dec Decision, items []Item) ([]Result, error) {
	switch {
	case !slices.Contains(bulkActions(), dec.Action):
		return nil, dec.refused(NotForMany, "this action is not possible for many items "+
			"together. A request for many items takes "+
			strings.Join(bulkActions(), ", "))
	case len(items) == 0:
		return nil, dec.refused(NothingNamed, "the request names no items. Choose at least one")
	case len(items) > MaxItems:
		return nil, dec.refused(TooManyItems, fmt.Sprintf("the request names %d items. Choose at most %d", len(items), MaxItems))
	}
	v, first := d.View(ctx), map[tool.ID]int{}
	for n, t := range slices.Backward(items) {
		first[t.ID] = n
	}
	records, out := make([]*approval.Record, len(items)), make([]Result, len(items))
	forEach(len(items), func(n int) {
		t, one := items[n], dec
		if first[t.ID] != n {
			out[n].Err = refused(NamedTwice, fmt.Sprintf("the request names the %v more than "+
				"once. The first entry for it has the result", t.ID.Kind))
			return
		}
		one.Hash, one.Rev, one.Shown, one.many = t.Hash, t.Rev, t.Shown, true
		r, err := d.decide(ctx, v, t.ID, one)
		if err != nil {
			out[n].Err = d.Explain(ctx, "decide-all", err)
		} else {
			records[n] = r
		}
	})
	v = d.states.Refresh(ctx).View(d.o.Agent)
	for n, r := range records {
		if r != nil {
			out[n].Tool = d.show(ctx, v, r.ID(), r)
		}
	}
	return out, nil
}
