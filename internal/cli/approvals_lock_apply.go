package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/lockfile"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// An approvalsApplyCmd is portcullis approvals apply.
type approvalsApplyCmd struct {
	askFlags
	lockArg
	DryRun bool     `help:"Print what would be approved, and approve nothing."`
	Note   string   `placeholder:"TEXT" help:"Note for entries without their own note. An entry with a severe finding needs its own."`
	Server []string `placeholder:"NAME" help:"Only items of this server; repeatable."`
}

// Validate implements kong's check of flags.
func (c approvalsApplyCmd) Validate() error {
	if len(c.Note) > approval.MaxNote {
		return fmt.Errorf("--note has %d bytes; at most %d are kept", len(c.Note), approval.MaxNote)
	}
	return c.askFlags.Validate()
}

// A skipped holds an entry of the file that is not approved, and the reason.
type skipped struct {
	ID  tool.ID `json:"-"`
	Who string  `json:"id"`
	Why string  `json:"why"`
}

// A plan is the list of approvals to make.
type plan struct {
	approve []tool.ID
	already int // entries whose definition is already approved
	skipped []skipped
}

// planOf returns the approvals in the file that the gateway lacks.
func planOf(f lockfile.File, s gatewayItems, note string) (p plan) {
	at := map[tool.ID]lockfile.State{}
	for _, i := range s.items {
		at[i.ID] = i.Standing
	}
	for _, id := range f.IDs() {
		e, row, why := f[id], s.rows[id], ""
		switch _, listed := s.rows[id]; {
		case !listed:
			why = "the gateway does not have it"
		case row.Hash != e.Hash:
			why = fmt.Sprintf("the gateway now has another definition (%s), which nobody has "+
				"reviewed in this file; portcullis approvals check shows it",
				text.Clip(string(row.Hash), 13))
		case at[id] == lockfile.Approved:
			p.already++
			continue
		case at[id] == lockfile.Disabled:
			why = "somebody disabled it at the gateway, and it stays disabled"
		case row.Obstacle != nil && (row.Obstacle.Code != decide.Severe || e.Note == ""):
			why = row.Obstacle.Detail
		case row.TakesTwo:
			why = "it takes two people, each signed in with the issuer, to approve it at " + row.Address
		}
		if why != "" {
			p.skipped = append(p.skipped, skipped{id, id.String(), why})
			continue
		}
		p.approve = append(p.approve, id)
	}
	noteOf := func(id tool.ID) string { return cmp.Or(f[id].Note, note) }
	slices.SortStableFunc(p.approve, func(a, b tool.ID) int { return strings.Compare(noteOf(a), noteOf(b)) })
	return p
}

// Run approves.
func (c approvalsApplyCmd) Run(ctx context.Context, env *environment) error {
	const command = "approvals apply"
	f, err := c.mustRead(command)
	if err != nil {
		return err
	}
	g, err := c.open(ctx, env, command)
	if err != nil {
		return err
	}
	defer g.close()
	s, err := readItems(ctx, g)
	if err != nil {
		return err
	}
	if err := s.checkServers(command, c.Server, f); err != nil {
		return err
	}
	f = f.OfServers(c.Server...)
	p := planOf(f, s, c.Note)
	if c.DryRun {
		return c.report(env, f, p, p.approve)
	}
	refused, answered, err := c.carryOut(ctx, g, f, s, p.approve)
	if err != nil {
		return c.broken(ctx, g, f, p, answered, err)
	}
	approved := slices.DeleteFunc(slices.Clone(p.approve), func(id tool.ID) bool { _, no := refused[id]; return no })
	if len(refused) > 0 { // another person may have approved the same definition just now
		if s, err = readItems(ctx, g); err != nil {
			return c.broken(ctx, g, f, p, answered, err)
		}
	}
	for _, id := range p.approve {
		why, no := refused[id]
		switch {
		case !no:
		case lockStateOf(s.rows[id]) == lockfile.Approved && s.rows[id].Hash == f[id].Hash:
			p.already++
		default:
			p.skipped = append(p.skipped, skipped{id, id.String(), why})
		}
	}
	return c.report(env, f, p, approved)
}

// carryOut makes the planned approvals, each for the definition that was read. It returns the
// refused items with their reasons, and the number of items that the gateway has answered. After an
// error, some of these items may be approved.
func (c approvalsApplyCmd) carryOut(ctx context.Context, g *gateway, f lockfile.File, s gatewayItems, ids []tool.ID) (refused map[tool.ID]string, answered int, err error) {
	refused = map[tool.ID]string{}
	for len(ids) > 0 {
		note, n := cmp.Or(f[ids[0]].Note, c.Note), 0
		var items []admin.BulkItem
		for n < len(ids) && cmp.Or(f[ids[n]].Note, c.Note) == note {
			items = append(items, admin.BulkItem{ID: ids[n].String(), Hash: f[ids[n]].Hash, Rev: s.rows[ids[n]].Rev})
			n++
		}
		as := client.BulkDecision{
			Action: approval.ActionApprove, Items: items, Note: note, Shown: decide.ShownLock,
		}
		answer, err := g.DecideAll(ctx, as, func(int) {})
		answered += len(answer.Tools)
		if err != nil {
			return nil, answered, err
		}
		for i, r := range answer.Tools {
			if r.Result != "done" {
				refused[ids[i]] = cmp.Or(r.Detail, "the gateway did not say why")
			}
		}
		ids = ids[n:]
	}
	return refused, answered, nil
}

// broken returns the error of carryOut with the number of approved definitions. answered is how
// many items the gateway answered before the error.
func (c approvalsApplyCmd) broken(ctx context.Context, g *gateway, f lockfile.File, p plan, answered int, why error) error {
	if _, refused := errors.AsType[*client.Refusal](why); refused && ctx.Err() == nil && answered == 0 {
		return why // no decision was made
	}
	if ctx.Err() != nil {
		why = errors.New(g.Command + ": interrupted")
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	s, err := readItems(after, g)
	if err != nil {
		return fmt.Errorf("%w; it is not known how many of the %d were approved: portcullis "+
			"approvals check shows it", why, len(p.approve))
	}
	n := 0
	for _, id := range p.approve {
		if s.rows[id].Hash == f[id].Hash && lockStateOf(s.rows[id]) == lockfile.Approved {
			n++
		}
	}
	return fmt.Errorf("%w; of %s to approve, %d are approved and stay so; run the command again "+
		"to continue", why, entries(len(p.approve)), n)
}

// report prints the result for the file's entries.
func (c approvalsApplyCmd) report(env *environment, f lockfile.File, p plan, approved []tool.ID) error {
	slices.SortFunc(approved, tool.ID.Compare)
	slices.SortFunc(p.skipped, func(a, b skipped) int { return a.ID.Compare(b.ID) })
	verb := "approved"
	if c.DryRun {
		verb = "would be approved"
	}
	var err error
	if c.json() {
		out := struct {
			DryRun   bool      `json:"dry_run,omitempty"`
			Approved []string  `json:"approved"`
			Already  int       `json:"already"`
			Skipped  []skipped `json:"skipped"`
		}{c.DryRun, []string{}, p.already, append([]skipped{}, p.skipped...)}
		for _, id := range approved {
			out.Approved = append(out.Approved, id.String())
		}
		err = printJSON(env.stdout, out)
	} else {
		err = printWhole(env.stdout, func(w io.Writer) {
			for _, id := range approved {
				fmt.Fprintf(w, "%s  %s (%s)\n", verb, inLine(id.String()), text.Clip(string(f[id].Hash), 13))
			}
			for _, s := range p.skipped {
				fmt.Fprintf(w, "skipped   %s: %s\n", inLine(s.Who), text.Clip(text.Line(s.Why), 600))
			}
		})
		fmt.Fprintf(env.stderr, "%s: %d %s, %d already were, %d skipped\n", c.File, len(approved), verb, p.already, len(p.skipped))
	}
	switch {
	case err != nil && c.DryRun:
		return fmt.Errorf("approvals apply: nothing was changed, and the plan could not be "+
			"printed: %w", err)
	case err != nil:
		return fmt.Errorf("approvals apply: the plan was carried out, but the result could not be "+
			"printed: %w", err)
	case len(p.skipped) > 0:
		return errDrift
	}
	return nil
}
