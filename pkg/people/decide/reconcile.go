package decide

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/people/auditevent"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
)

// maxReconciled is how many reconciled items an answer lists.
const maxReconciled = 1000

// A Reconciliation says what happened to the records that the store lost.
type Reconciliation struct {
	Tools []ReconciledItem `json:"tools" nullable:"false" doc:"by id, at most 1,000"`
	Count int              `json:"settled" doc:"number of reconciled records"`

	// Actions of people after the catalog was made, from the audit files.
	Closed  []auditevent.Action `json:"closed,omitempty" doc:"actions that locked or revoked something and apply again, at most 1,000"`
	Decide  []auditevent.Action `json:"decide_again,omitempty" doc:"actions that unlocked something and do not apply until a person decides again, at most 1,000"`
	Unknown []auditevent.Action `json:"unknown,omitempty" doc:"actions that locked unknown items and therefore have no effect, at most 1,000"`
	Skipped []string            `json:"skipped,omitempty" doc:"the first 20 places where the audit is damaged or changed; actions there that unlocked something are ignored"`
	Faults  int                 `json:"faults,omitempty" doc:"number of such places"`
}

// A ReconciledItem is an item whose record was reconciled.
type ReconciledItem struct {
	ID       string `json:"id" doc:"server:tool, server:prompt:name or server:resource:uri"`
	State    string `json:"state" enum:"approved,pending,changed,blocked"`
	Disabled bool   `json:"disabled"`
}

// Restore restores every lost record from the catalog. If this process reads the audit files, it
// also repeats what people locked or revoked after the catalog was made.
func (d *Service) Restore(ctx context.Context) (Reconciliation, error) {
	return d.reconcile(
		ctx,
		audit.ActionRestored,
		func(snap *catalog.Snapshot) (auditevent.Restored, error) {
			wrap := func(how catalog.Reconciler) catalog.Reconciler { return asOnePerson(d.View(ctx), how) }
			return d.restorer().Restore(ctx, snap, ActorOf(ctx).Name, wrap)
		},
	)
}

// Accept keeps every lost record as the store has it. Definitions that are approved only in
// the catalog wait for approval.
func (d *Service) Accept(ctx context.Context) (Reconciliation, error) {
	return d.reconcile(
		ctx,
		audit.ActionAccepted,
		func(snap *catalog.Snapshot) (out auditevent.Restored, err error) {
			out.Settled, err = catalog.Reconcile(
				ctx,
				d.approvals,
				snap,
				asOnePerson(d.View(ctx), approval.AcceptStore),
				ActorOf(ctx).Name,
				d.o.Now,
			)
			return out, err
		},
	)
}

func (d *Service) restorer() *auditevent.Restorer {
	return &auditevent.Restorer{
		Audit: d.o.Files, Approvals: d.approvals, Stops: d.o.Stops, Tokens: d.o.Tokens, Requests: d.o.Requests, Now: d.o.Now,
	}
}

// reconcile settles every lost record, but approves nothing that takes two people. It then runs a
// sync, which updates the health.
func (d *Service) reconcile(
	ctx context.Context,
	action string,
	how func(*catalog.Snapshot) (auditevent.Restored, error),
) (Reconciliation, error) {
	snap := d.states.Refresh(ctx).Catalog
	if snap == nil {
		return Reconciliation{}, Refuse(http.StatusConflict, "there is no tool catalog, so the "+
			"gateway cannot tell which records were lost")
	}
	done, err := how(snap)
	if n := len(done.Settled) + len(done.Closing); n > 0 { // each record has its own line too
		note := text.Count(len(done.Settled), "record")
		if len(done.Closing) > 0 {
			note += "; " + text.Count(len(done.Closing), "action") + " of the audit applies again"
		}
		_ = d.Record(ctx, audit.Line{Action: action, Note: note})
	}
	if err != nil {
		return Reconciliation{}, fmt.Errorf(
			"after %d records were settled: %w",
			len(done.Settled),
			err,
		)
	}
	if d.o.Syncer != nil && len(done.Settled)+len(done.Closing) > 0 {
		if _, err := d.o.Syncer.Sync(ctx); err != nil && !errors.Is(err, ErrStarted) {
			d.o.Log.LogAttrs(
				ctx,
				slog.LevelWarn,
				"sync after reconciliation failed",
				slog.Any("error", err),
			)
		}
	}
	d.states.Refresh(ctx)
	return ReconciliationOf(done), nil
}

// ReconciliationOf returns what people read about the restored records.
func ReconciliationOf(done auditevent.Restored) Reconciliation {
	out := Reconciliation{
		Tools: []ReconciledItem{}, Count: len(done.Settled),
		Closed: firstOf(
			done.Closing,
		), Decide: firstOf(done.Opening), Unknown: firstOf(done.Unknown),
		Skipped: done.Faults, Faults: done.Count,
	}
	for _, r := range firstOf(done.Settled) {
		out.Tools = append(out.Tools, ReconciledItem{r.ID().String(), string(r.State), r.Disabled})
	}
	return out
}

func firstOf[T any](all []T) []T { return all[:min(len(all), maxReconciled)] }
