package decide

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/audit"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/text"
)

// maxSettled is how many settled items an answer names.
const maxSettled = 1000

// A Settlement says what became of the records that the store lost.
type Settlement struct {
	Tools []Settled `json:"tools" nullable:"false" doc:"by id, at most 1,000"`
	Count int       `json:"settled" doc:"how many records were"`
}

// A Settled is an item whose record was settled.
type Settled struct {
	ID       string `json:"id" doc:"server:tool, server:prompt:name or server:resource:uri"`
	State    string `json:"state" enum:"approved,pending,changed,blocked"`
	Disabled bool   `json:"disabled"`
}

// Restore decides for every record that the store lost that what the catalog knows of it holds.
func (d *Desk) Restore(ctx context.Context) (Settlement, error) {
	return d.settle(ctx, audit.ActionRestored, approval.KeepRestored)
}

// Accept decides for every record that the store lost that what the store has of it holds; what it
// lacks waits for approval.
func (d *Desk) Accept(ctx context.Context) (Settlement, error) {
	return d.settle(ctx, audit.ActionAccepted, approval.AcceptStore)
}

// settle settles every lost record; what takes two people to approve is not approved by it. A sync follows, after which health is up to date.
func (d *Desk) settle(ctx context.Context, action string, how catalog.Settlement) (out Settlement, err error) {
	snap := d.states.Refresh(ctx).Catalog
	if snap == nil {
		return out, Refuse(http.StatusConflict, "there is no tool catalog, so nothing tells what was lost")
	}
	settled, err := catalog.Settle(ctx, d.approvals, snap, alone(d.View(ctx), how), ActorOf(ctx).Name, d.o.Now)
	if len(settled) > 0 { // each has a line of its own as well
		_ = d.Record(ctx, audit.Line{Action: action, Note: text.Count(len(settled), "record")})
	}
	if err != nil {
		return out, fmt.Errorf("after %d records were settled: %w", len(settled), err)
	}
	out.Tools, out.Count = []Settled{}, len(settled)
	for _, r := range settled[:min(len(settled), maxSettled)] {
		out.Tools = append(out.Tools, Settled{r.ID().String(), string(r.State), r.Disabled})
	}
	if d.o.Syncer != nil && len(settled) > 0 {
		if _, err := d.o.Syncer.Sync(ctx); err != nil && !errors.Is(err, ErrStarted) {
			d.o.Log.LogAttrs(ctx, slog.LevelWarn, "no sync after approvals were settled", slog.Any("error", err))
		}
	}
	d.states.Refresh(ctx)
	return out, nil
}
