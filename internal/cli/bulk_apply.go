package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
)

const (
	// maxSent is how many items one request decides about: few enough that it is over soon after Ctrl-C.
	maxSent = 100

	// grace is how long the request that runs at Ctrl-C may take to end, so that it is known what it did.
	grace = 10 * time.Second
)

// A bulkResult is what became of many items.
type bulkResult struct {
	Results []admin.BulkResult `json:"tools"`
	Count   int                `json:"done"`

	halves  int // are approved by the first of two people
	refused int
}

// decideAll decides about the rows, each as it was seen, and says what became of them; so many more were
// named and left out.
func (d *decider) decideAll(ctx context.Context, rows []decide.Row, leftOut int) error {
	done := bulkResult{Results: []admin.BulkResult{}}
	failed := d.send(ctx, rows, &done)
	if failed != nil && len(done.Results) == 0 {
		return failed
	}
	for _, r := range done.Results {
		if r.Result != "done" {
			fmt.Fprintf(d.env.stderr, "%s: %s: %s\n", inLine(r.ID), inLine(r.Result), text.Clip(text.Line(r.Detail), client.MaxDetail))
		}
	}
	err := d.told(d.printDone(done, len(rows)))
	if failed != nil {
		failed = fmt.Errorf("%w. Before that %d of %s were %s, which holds; the same command goes on with the rest", failed, done.Count, text.Count(len(rows), "item"), past(d.action))
	} else if n := done.refused + leftOut; n > 0 {
		failed = d.leftOver(n)
	}
	return errors.Join(err, failed)
}

// printDone prints what became of many.
func (d *decider) printDone(done bulkResult, of int) error {
	return d.print(d.env.stdout, done, func(w io.Writer) {
		fmt.Fprintf(w, "%s %d of %s\n", past(d.action), done.Count, text.Count(of, "item"))
		if done.halves > 0 {
			fmt.Fprintf(w, "of %d of them yours is the first of two approvals: one more person is needed\n", done.halves)
		}
	})
}

// send sends the rows in several requests. It returns why it ended early.
func (d *decider) send(ctx context.Context, rows []decide.Row, done *bulkResult) error {
	p := newProgress(d.env.stderr, d.env.terminal, d.action, "item")
	p.begin(len(rows))
	defer p.end()
	for len(rows) > 0 {
		if ctx.Err() != nil {
			return fmt.Errorf("%s: interrupted; nothing was decided about the last %d", d.action, len(rows))
		}
		now := rows[:min(len(rows), maxSent)]
		answer, err := d.sendSome(ctx, now)
		if err != nil {
			return err
		}
		for i, r := range answer.Tools {
			switch {
			case r.Result != "done":
				done.refused++
			case d.action == approval.ActionApprove && now[i].TakesTwo && r.Status == string(lock.PendingApproval):
				done.halves++
			}
		}
		done.Results, done.Count = append(done.Results, answer.Tools...), done.Count+answer.Count
		rows = rows[len(now):]
		p.step(len(done.Results), "")
	}
	return nil
}

// sendSome sends one request. One that has begun may end although somebody interrupts.
func (d *decider) sendSome(ctx context.Context, rows []decide.Row) (admin.BulkAnswer, error) {
	as := client.BulkDecision{Action: d.action, Note: strings.TrimSpace(d.Note), Tell: d.Tell}
	for _, r := range rows {
		as.Items = append(as.Items, admin.BulkItem{ID: r.ID, Hash: r.Hash, Rev: r.Rev})
	}
	going, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })()
	return d.DecideAll(going, as)
}
