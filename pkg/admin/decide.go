package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/state"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// maxWriters is how many records one bulk approval writes at once.
const maxWriters = 8

// maxNote is the longest note, in bytes.
const maxNote = approval.MaxNote

// A Seen is what a person had before him who decides. A decision about something else, which the
// record is by now, is none.
type Seen struct {
	Rev int64 `json:"rev,omitempty" minimum:"1" doc:"of the record that was seen; if it is another by now, nothing is decided. Without it the decision is taken whatever others decided meanwhile"`
}

// A decision is a pure transition of a record with everything but the record
// and the time filled in.
type decision struct {
	deed  string // for the log
	opens bool   // it makes a tool callable if nothing else locks it
	seen  Seen
	apply func(r approval.Record, actor string, now time.Time) (approval.Record, approval.Entry, error)
}

func approving(hash string, seen Seen, note string) decision {
	return decision{"approve", true, seen, func(r approval.Record, actor string, now time.Time) (approval.Record, approval.Entry, error) {
		return approval.Approve(r, tool.Hash(hash), actor, note, now)
	}}
}

func disabling(seen Seen, note string) decision {
	return decision{"disable", false, seen, func(r approval.Record, actor string, now time.Time) (approval.Record, approval.Entry, error) {
		return approval.Disable(r, actor, note, now)
	}}
}

func enabling(seen Seen, note string) decision {
	return decision{"enable", true, seen, func(r approval.Record, actor string, now time.Time) (approval.Record, approval.Entry, error) {
		return approval.Enable(r, actor, note, now)
	}}
}

// decide carries out d on the tool's record, and returns the record as it is then.
func (a *api) decide(ctx context.Context, v *state.View, id tool.ID, d decision) (*approval.Record, error) {
	i, listed := v.Find(id)
	if listed && d.opens && v.Verdict(i).Denied == lock.Yes {
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
		return nil, problem(http.StatusConflict, moved(*r))
	}
	after, err := a.approvals.Put(ctx, next, &entry)
	return &after, err
}

// moved says to somebody who saw an earlier revision how the record is now. Whoever changed it
// last may be a sync.
func moved(r approval.Record) string {
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
		return Tool{}, a.fail(ctx, d.deed, err)
	}
	return a.show(a.states.Refresh(ctx).View(a.o.Agent), id, r), nil
}

type approveInput struct {
	ToolPath
	Body struct {
		Seen
		Hash string `json:"hash" pattern:"^[0-9a-f]{64}$" doc:"of the definition that was seen"`
		Note string `json:"note,omitempty" maxLength:"4096"`
	}
}

func (a *api) approveTool(ctx context.Context, in *approveInput) (*toolOutput, error) {
	t, err := a.decideAndShow(ctx, in.id(), approving(in.Body.Hash, in.Body.Seen, in.Body.Note))
	return &toolOutput{t}, err
}

type noteInput struct {
	ToolPath
	Body *struct {
		Seen
		Note string `json:"note,omitempty" maxLength:"4096" doc:"why"`
	}
}

func (in *noteInput) said() (seen Seen, note string) {
	if in.Body == nil {
		return Seen{}, ""
	}
	return in.Body.Seen, in.Body.Note
}

func (a *api) disableTool(ctx context.Context, in *noteInput) (*toolOutput, error) {
	t, err := a.decideAndShow(ctx, in.id(), disabling(in.said()))
	return &toolOutput{t}, err
}

func (a *api) enableTool(ctx context.Context, in *noteInput) (*toolOutput, error) {
	t, err := a.decideAndShow(ctx, in.id(), enabling(in.said()))
	return &toolOutput{t}, err
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
	Name string `json:"name" minLength:"1"`
	Hash string `json:"hash" pattern:"^[0-9a-f]{64}$"`
	Seen
}

// An Approved is what became of one tool of a bulk approval.
type Approved struct {
	Name   string `json:"name"`
	Result string `json:"result" enum:"approved,refused,failed"`
	Status string `json:"status,omitempty" doc:"of the tool after it"`
	Detail string `json:"detail,omitempty" doc:"why it was not approved"`
}

type approveServerOutput struct {
	Body struct {
		Tools []Approved `json:"tools" nullable:"false" doc:"in the order of the request"`
		Count int        `json:"approved" doc:"how many were"`
	}
}

// approveServer approves each tool by itself: one that changed meanwhile does
// not hold up the others.
func (a *api) approveServer(ctx context.Context, in *approveServerInput) (*approveServerOutput, error) {
	v := a.states.Load(ctx).View(a.o.Agent)
	if !hasServer(v, in.Server) {
		return nil, problem(http.StatusNotFound, "no server of this name is configured")
	}
	records := make([]*approval.Record, len(in.Body.Tools))
	out := &approveServerOutput{}
	out.Body.Tools = make([]Approved, len(in.Body.Tools))
	var g errgroup.Group
	g.SetLimit(maxWriters)
	for n, t := range in.Body.Tools {
		g.Go(func() error {
			out.Body.Tools[n] = Approved{Name: t.Name, Result: "approved"}
			r, err := a.decide(ctx, v, tool.ID{Server: in.Server, Name: t.Name}, approving(t.Hash, t.Seen, in.Body.Note))
			if err != nil {
				out.Body.Tools[n] = a.notApproved(ctx, t.Name, err)
				return nil
			}
			records[n] = r
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, a.fail(ctx, "approve server", err)
	}
	v = a.states.Refresh(ctx).View(a.o.Agent)
	for n, r := range records {
		if r != nil {
			out.Body.Tools[n].Status = a.show(v, r.ID(), r).Status
			out.Body.Count++
		}
	}
	return out, nil
}

func (a *api) notApproved(ctx context.Context, name string, err error) Approved {
	out := Approved{Name: name, Result: "failed", Detail: "internal error; the log says more"}
	if e, ok := errors.AsType[*huma.ErrorModel](a.fail(ctx, "approve", err)); ok && e.Status < http.StatusInternalServerError {
		out.Result, out.Detail = "refused", e.Detail
	}
	return out
}
