package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
)

// decideAll decides about the rows as they were read, and prints the results. leftOut is the number
// of named items that the caller has already left out.
func (d *decider) decideAll(ctx context.Context, rows []decide.Row, leftOut int) error {
	as := client.BulkDecision{Action: d.action, Note: strings.TrimSpace(d.Note), Tell: d.Tell, Shown: d.shown}
	for _, r := range rows {
		as.Items = append(as.Items, admin.BulkItem{ID: r.ID, Hash: r.Hash, Rev: r.Rev})
	}
	p := newProgress(d.env.stderr, d.env.terminal, d.action, "item")
	p.begin(len(rows))
	done, failed := d.DecideAll(ctx, as, func(n int) { p.step(n, "") })
	p.end()
	if failed != nil && len(done.Tools) == 0 {
		return failed
	}
	halves, refused := 0, leftOut
	for i, r := range done.Tools {
		switch {
		case r.Result != "done":
			refused++
			fmt.Fprintf(d.env.stderr, "%s: %s: %s\n",
				inLine(r.ID), inLine(r.Result), text.Clip(text.Line(r.Detail), client.MaxDetail))
		case d.action == approval.ActionApprove && rows[i].TakesTwo && r.Status == string(lock.PendingApproval):
			halves++
		}
	}
	err := d.printError(d.print(d.env.stdout, done, func(w io.Writer) {
		fmt.Fprintf(w, "%s %d of %s\n", past(d.action), done.Count, text.Count(len(rows), "item"))
		if halves > 0 {
			fmt.Fprintf(w, "for %d of them yours is the first of two approvals: one more person "+
				"is needed\n", halves)
		}
	}))
	switch {
	case failed != nil:
		failed = fmt.Errorf("%w. Before that %d of %s were %s, and stay so; the same command "+
			"continues with the rest",
			failed, done.Count, text.Count(len(rows), "item"), past(d.action))
	case refused > 0:
		failed = d.leftOutError(refused)
	}
	return errors.Join(err, failed)
}
