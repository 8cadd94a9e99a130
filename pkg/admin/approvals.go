package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/decide"
)

// maxSettled is how many settled tools an answer names.
const maxSettled = 1000

// A Settled is a tool whose record was settled.
type Settled struct {
	ID       string `json:"id" doc:"server:tool"`
	State    string `json:"state" enum:"approved,pending,changed"`
	Disabled bool   `json:"disabled"`
}

type settleOutputBody struct {
	Tools []Settled `json:"tools" nullable:"false" doc:"by id, at most 1,000"`
	Count int       `json:"settled" doc:"how many records were"`
}

// settle returns the operation that decides which of two versions counts for every record that the
// store lost. A sync follows, after which health is up to date.
func (a *api) settle(how catalog.Settlement) func(context.Context, *struct{}) (settleOutputBody, error) {
	return func(ctx context.Context, _ *struct{}) (out settleOutputBody, err error) {
		snap := a.states.Refresh(ctx).Catalog
		if snap == nil {
			return out, problem(http.StatusConflict, "there is no tool catalog, so nothing tells what was lost")
		}
		settled, err := catalog.Settle(ctx, a.approvals, snap, how, decide.ActorOf(ctx), a.o.Now)
		if err != nil {
			return out, fmt.Errorf("after %d records were settled: %w", len(settled), err)
		}
		out.Tools, out.Count = []Settled{}, len(settled)
		for _, r := range settled[:min(len(settled), maxSettled)] {
			out.Tools = append(out.Tools, Settled{r.ID().String(), string(r.State), r.Disabled})
		}
		if a.o.Syncer != nil && len(settled) > 0 {
			if _, err := a.o.Syncer.Sync(ctx); err != nil && !errors.Is(err, ErrStarted) {
				a.o.Log.LogAttrs(ctx, slog.LevelWarn, "no sync after approvals were settled", slog.Any("error", err))
			}
		}
		a.states.Refresh(ctx)
		return out, nil
	}
}
