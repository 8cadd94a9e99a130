package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
)

// An approveItemsCmd is portcullis approve.
type approveItemsCmd struct{ decideCmd }

// A blockCmd is portcullis block.
type blockCmd struct{ decideCmd }

// A disableCmd is portcullis disable.
type disableCmd struct{ decideCmd }

// An enableCmd is portcullis enable.
type enableCmd struct{ decideCmd }

// An unblockCmd is portcullis unblock.
type unblockCmd struct {
	askFlags
	decisionFlags
	Items []itemName `arg:"" name:"name" help:"server:tool, server:prompt:name or server:resource:uri."`
}

// Validate implements kong's check of flags.
func (c unblockCmd) Validate() error {
	if (c.Hash != "" || c.Rev != 0) && len(c.Items) != 1 {
		return errors.New("--hash and --rev work for one item only")
	}
	return c.gatewayFlags.Validate()
}

// Run lifts blocks, one after the other.
func (c unblockCmd) Run(ctx context.Context, env *environment, g *gateway) error {
	d := decider{gateway: g, env: env, askFlags: c.askFlags, action: approval.ActionUnblock, decisionFlags: c.decisionFlags}
	var failed []error
	for _, item := range c.Items {
		if err := d.one(ctx, item.ID); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// An undoCmd is portcullis undo.
type undoCmd struct {
	askFlags
	Item itemName `arg:"" name:"name" help:"server:tool, server:prompt:name or server:resource:uri."`
	Rev  int64    `placeholder:"N" help:"Revision that the decision printed. If the record has a later revision, nothing is undone. Without this flag, the current revision."`
}

// Run undoes a decision.
func (c undoCmd) Run(ctx context.Context, env *environment, g *gateway) error {
	a, err := g.item(ctx, env, c.Item.ID, "")
	if err != nil {
		return err
	}
	was := decide.Record{Rev: 1}
	if r := a.Value.Record; r != nil {
		was = *r
	}
	d := decider{gateway: g, env: env, askFlags: c.askFlags, action: approval.ActionUndo}
	as := client.Decision{DecisionBody: admin.DecisionBody{Rev: cmp.Or(c.Rev, was.Rev)}}
	return d.carryOut(ctx, c.Item.ID, as, func(now decide.Tool) string {
		return fmt.Sprintf("%s is undone. %s", inLine(was.Undoes), stateText(now))
	})
}
