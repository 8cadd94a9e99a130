package decide

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/finding"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxWriters is how many records one request reads or writes at once.
const maxWriters = 8

// MaxItems is how many items can be decided about together.
const MaxItems = 500

// A Decision is what a person decided about a tool, a prompt or a resource.
type Decision struct {
	Action string    // one of [Actions] or [bulkActions]
	Hash   tool.Hash // of the definition that was seen; to approve, block and unblock it has to be named
	Rev    int64     // of the record that was seen; if it is another by now, nothing is decided. 0: whatever others decided meanwhile. To undo it has to be named
	Note   string
	Tell   bool // agents may be told the note
}

// Actions returns what a person can do about an item.
func Actions() []string {
	return []string{
		approval.ActionApprove, approval.ActionBlock, approval.ActionUnblock, approval.ActionDisable, approval.ActionEnable, approval.ActionUndo,
	}
}

// bulkActions returns what can be done about many items together.
func bulkActions() []string {
	return []string{approval.ActionApprove, approval.ActionBlock, approval.ActionDisable, approval.ActionEnable, ActionCarry}
}

// approves reports whether the decision approves a definition.
func (d Decision) approves() bool {
	return d.Action == approval.ActionApprove || d.Action == ActionCarry
}

// opens reports whether the decision could make an item callable. Undo is not among them: it gives
// back what there was.
func (d Decision) opens() bool {
	return d.approves() || d.Action == approval.ActionEnable || d.Action == approval.ActionUnblock
}

// namesHash reports whether the decision is about one definition alone.
func (d Decision) namesHash() bool {
	return d.approves() || d.Action == approval.ActionBlock || d.Action == approval.ActionUnblock
}

// check refuses a decision that nothing of the kind can be decided about by.
func (d Decision) check(kind tool.Kind) error {
	switch {
	case !slices.Contains(Actions(), d.Action) && d.Action != ActionCarry:
		return unfit("the request does not say what to do, and nothing was decided: it takes %s", strings.Join(Actions(), ", "))
	case d.namesHash() && d.Hash == "":
		return unfit("the request does not name the hash of the definition that was seen, and nothing was decided: read the %v, and decide about the hash that is shown", kind)
	case d.Action == approval.ActionUndo && d.Rev == 0:
		return unfit("the request does not name the revision that the decision made, and nothing was undone: read the %v, and name the rev that is shown", kind)
	case !utf8.ValidString(d.Note):
		return unfit("the note is not UTF-8 text, and nothing was decided: write it anew")
	case len(d.Note) > approval.MaxNote:
		return unfit("the note has %d bytes, and nothing was decided: it takes at most %d", len(d.Note), approval.MaxNote)
	}
	return nil
}

// apply carries d out on r; two says that approving it takes two people.
func (d Decision) apply(r approval.Record, by Actor, two bool, now time.Time) (approval.Record, approval.Entry, error) {
	said := approval.Said{Actor: by.Name, Subject: by.Subject, Tell: d.Tell}
	if !text.Blank(d.Note) {
		said.Note = strings.TrimSpace(d.Note)
	}
	switch d.Action {
	case approval.ActionApprove, ActionCarry:
		if two {
			return approval.ApproveFourEyes(r, d.Hash, said, now)
		}
		return approval.Approve(r, d.Hash, said, now)
	case approval.ActionBlock:
		return approval.Block(r, d.Hash, said, now)
	case approval.ActionUnblock:
		return approval.Unblock(r, d.Hash, said, now)
	case approval.ActionDisable:
		return approval.Disable(r, said, now)
	case approval.ActionUndo:
		return approval.UndoDecision(r, d.Rev, by.Name, now)
	}
	return approval.Enable(r, said, now)
}

// decide carries out dec on the item's record, and returns the record as it is then.
func (d *Service) decide(ctx context.Context, v *state.View, id tool.ID, dec Decision) (*approval.Record, error) {
	if err := dec.check(id.Kind); err != nil {
		return nil, err
	}
	if rights := ActorOf(ctx).Rights; !rights.Decides(id.Server) {
		return nil, errElsewhere(id.Server, rights.Servers)
	}
	i, listed := v.Find(id)
	if listed && dec.opens() && v.Verdict(i).Denied == lock.Yes {
		return nil, errDenied(id.Kind)
	}
	r, err := d.stored(ctx, id)
	switch {
	case errors.Is(err, approval.ErrNotFound) && listed:
		return nil, errNoRecord(id.Kind)
	case errors.Is(err, approval.ErrNotFound):
		return nil, errNone(id.Kind)
	case err != nil:
		return nil, err
	case dec.Hash != "" && dec.Hash != r.CurrentHash && dec.Action != approval.ActionUnblock:
		return nil, d.errStale(v, r, dec) // which says more than that the record is another
	case dec.Rev != 0 && dec.Rev != r.Rev:
		return nil, d.errDecided(v, r, dec)
	}
	return d.carryOut(ctx, v, r, dec)
}

// carryOut is the end of decide, once nothing about the record speaks against it.
func (d *Service) carryOut(ctx context.Context, v *state.View, r *approval.Record, dec Decision) (*approval.Record, error) {
	actor := ActorOf(ctx)
	two := dec.approves() && needsFourEyes(v, r)
	if two {
		if err := d.checkPerson(actor); err != nil {
			return nil, err
		}
	}
	if dec.Action == ActionCarry {
		if err := checkCarry(r); err != nil {
			return nil, err
		}
	}
	if dec.approves() && text.Blank(dec.Note) && tool.CheckDepth(r.Current) == nil {
		if list := findingsOf(v, r); finding.Severe(list) {
			return nil, errUnexplained(list)
		}
	}
	next, entry, err := dec.apply(*r, actor, two, d.o.Now())
	if err == nil {
		if entry.Source = actor.Source; dec.Action == ActionCarry {
			entry.Note = carried(r, entry.Note)
		}
		next, err = d.approvals.Put(ctx, next, &entry)
	}
	if err != nil {
		return nil, refusal(r.Kind, err)
	}
	return &next, nil
}

// stored returns the item's record in the store. One that the store lost is restored first, so that
// no decision is lost by the next one.
func (d *Service) stored(ctx context.Context, id tool.ID) (*approval.Record, error) {
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

// Decide carries out dec in the name of the request's actor, lets requests of this process see it at
// once, and returns the item as it is then.
func (d *Service) Decide(ctx context.Context, id tool.ID, dec Decision) (Tool, error) {
	r, err := d.decide(ctx, d.View(ctx), id, dec)
	if err != nil {
		return Tool{}, err
	}
	return d.show(d.states.Refresh(ctx).View(d.o.Agent), id, r), nil
}

// An Item is one of several that are decided about together.
type Item struct {
	ID   tool.ID
	Hash tool.Hash
	Rev  int64
}

// A Result is what became of one [Item]: it as it is then, or why nothing was decided.
type Result struct {
	Tool Tool
	Err  *Error // nil: it was decided
}

// DecideAll carries out one decision on each item by itself, with the hash and the revision that the
// item names: one that changed meanwhile does not stop the others. The results are in the order of
// the items. An error says that nothing at all was decided.
func (d *Service) DecideAll(ctx context.Context, dec Decision, items []Item) ([]Result, error) {
	switch {
	case !slices.Contains(bulkActions(), dec.Action):
		return nil, unfit("this cannot be done to many together, and nothing was decided: a request for many takes %s", strings.Join(bulkActions(), ", "))
	case len(items) == 0:
		return nil, unfit("the request names nothing, and nothing was decided: choose some")
	case len(items) > MaxItems:
		return nil, unfit("the request names %d items, and nothing was decided: choose at most %d", len(items), MaxItems)
	}
	v, named := d.View(ctx), map[tool.ID]bool{}
	records, out := make([]*approval.Record, len(items)), make([]Result, len(items))
	var g errgroup.Group
	g.SetLimit(maxWriters)
	for n, t := range items {
		if named[t.ID] {
			out[n].Err = d.Explain(ctx, "decide-all", unfit("the request names the %v more than once: what became of it stands where it is named first", t.ID.Kind))
			continue
		}
		named[t.ID] = true
		g.Go(func() error {
			one := dec
			one.Hash, one.Rev = t.Hash, t.Rev
			r, err := d.decide(ctx, v, t.ID, one)
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
	return out, nil
}
