package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/state"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// maxWriters is how many records one request reads or writes at once.
const maxWriters = 8

// Seen is what a person saw before deciding. A decision about a record that is another by now is
// not carried out.
type Seen struct {
	Rev int64 `json:"rev,omitempty" minimum:"1" doc:"of the record that was seen; if it is another by now, nothing is decided. Without it the decision is taken whatever others decided meanwhile"`
}

// A decision is what a person decided about a tool.
type decision struct {
	action string    // one of approval's: approve, disable or enable
	hash   tool.Hash // to approve: of the definition that was seen
	seen   Seen
	note   string
}

func (d decision) apply(r approval.Record, actor string, now time.Time) (approval.Record, approval.Entry, error) {
	switch d.action {
	case approval.ActionApprove:
		return approval.Approve(r, d.hash, actor, d.note, now)
	case approval.ActionDisable:
		return approval.Disable(r, actor, d.note, now)
	}
	return approval.Enable(r, actor, d.note, now)
}

// decide carries out d on the tool's record, and returns the record as it is then.
func (a *api) decide(ctx context.Context, v *state.View, id tool.ID, d decision) (*approval.Record, error) {
	i, listed := v.Find(id)
	if listed && d.action != approval.ActionDisable && v.Verdict(i).Denied == lock.Yes {
		return nil, problem(http.StatusConflict, "an operator's rule denies this tool; only the operator can change that")
	}
	r, err := a.stored(ctx, id)
	switch {
	case errors.Is(err, approval.ErrNotFound) && listed:
		return nil, problem(http.StatusConflict, "the tool has no approval record yet; the next sync makes one")
	case errors.Is(err, approval.ErrNotFound):
		return nil, problem(http.StatusNotFound, "no tool of this name is known")
	case err != nil:
		return nil, err
	}
	next, entry, err := d.apply(*r, actorOf(ctx), a.o.Now())
	if err != nil {
		return nil, err // what was seen changed, which says more than that the record did
	}
	if d.seen.Rev != 0 && d.seen.Rev != r.Rev {
		return nil, problem(http.StatusConflict, changedSince(r))
	}
	after, err := a.approvals.Put(ctx, next, &entry)
	return &after, err
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

// decideAndShow carries out d, and lets requests of this process see it at once.
func (a *api) decideAndShow(ctx context.Context, id tool.ID, d decision) (Tool, error) {
	r, err := a.decide(ctx, a.states.Load(ctx).View(a.o.Agent), id, d)
	if err != nil {
		return Tool{}, err
	}
	return a.show(a.states.Refresh(ctx).View(a.o.Agent), id, r), nil
}

type approveInput struct {
	ToolPath
	Body struct {
		Seen
		Hash tool.Hash `json:"hash" pattern:"^[0-9a-f]{64}$" doc:"of the definition that was seen"`
		Note string    `json:"note,omitempty" maxLength:"4096"`
	}
}

func (a *api) approveTool(ctx context.Context, in *approveInput) (Tool, error) {
	return a.decideAndShow(ctx, in.id(), decision{approval.ActionApprove, in.Body.Hash, in.Body.Seen, in.Body.Note})
}

type noteInput struct {
	ToolPath
	Body *struct {
		Seen
		Note string `json:"note,omitempty" maxLength:"4096" doc:"why"`
	}
}

// decideTool returns the operation that disables or enables a tool.
func (a *api) decideTool(action string) func(context.Context, *noteInput) (Tool, error) {
	return func(ctx context.Context, in *noteInput) (Tool, error) {
		d := decision{action: action}
		if in.Body != nil {
			d.seen, d.note = in.Body.Seen, in.Body.Note
		}
		return a.decideAndShow(ctx, in.id(), d)
	}
}

type approveServerInput struct {
	Server string `path:"server"`
	Body   struct {
		Tools []NamedHash `json:"tools" minItems:"1" maxItems:"1000" nullable:"false"`
		Note  string      `json:"note,omitempty" maxLength:"4096"`
	}
}

// A NamedHash is a tool of the server, and the hash of its definition that was seen.
type NamedHash struct {
	Name string    `json:"name" minLength:"1"`
	Hash tool.Hash `json:"hash" pattern:"^[0-9a-f]{64}$"`
	Seen
}

// An Approved is what became of one tool of a bulk approval.
type Approved struct {
	Name   string `json:"name"`
	Result string `json:"result" enum:"approved,refused,failed"`
	Status string `json:"status,omitempty" doc:"of the tool after it"`
	Detail string `json:"detail,omitempty" doc:"why it was not approved"`
}

type approveServerOutputBody struct {
	Tools []Approved `json:"tools" nullable:"false" doc:"in the order of the request"`
	Count int        `json:"approved" doc:"how many were"`
}

// approveServer approves each tool by itself: one that changed meanwhile does not stop the others.
func (a *api) approveServer(ctx context.Context, in *approveServerInput) (out approveServerOutputBody, err error) {
	v := a.states.Load(ctx).View(a.o.Agent)
	if !hasServer(v, in.Server) {
		return out, problem(http.StatusNotFound, "no server of this name is configured")
	}
	records := make([]*approval.Record, len(in.Body.Tools))
	out.Tools = make([]Approved, len(in.Body.Tools))
	var g errgroup.Group
	g.SetLimit(maxWriters)
	for n, t := range in.Body.Tools {
		g.Go(func() error {
			out.Tools[n] = Approved{Name: t.Name, Result: "approved"}
			r, err := a.decide(ctx, v, tool.ID{Server: in.Server, Name: t.Name}, decision{approval.ActionApprove, t.Hash, t.Seen, in.Body.Note})
			if err == nil {
				records[n] = r
				return nil
			}
			p := a.fail(ctx, "approve-server", err)
			out.Tools[n].Detail, out.Tools[n].Result = p.Detail, "refused"
			if p.Status >= http.StatusInternalServerError {
				out.Tools[n].Result = "failed"
			}
			return nil
		})
	}
	_ = g.Wait() // each says in its place what became of it
	v = a.states.Refresh(ctx).View(a.o.Agent)
	for n, r := range records {
		if r != nil {
			out.Tools[n].Status = a.show(v, r.ID(), r).Status
			out.Count++
		}
	}
	return out, nil
}
