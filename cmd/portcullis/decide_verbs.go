package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/decide"
)

// An approveItemsCmd is portcullis approve.
type approveItemsCmd struct{ decideCmd }

// Help implements kong's longer help.
func (approveItemsCmd) Help() string {
	return `Prints each item that you name: what was found in it, and the words that were added and removed since it was approved
(40 lines at most, then the command that prints all). Then it asks. Without a terminal, name the hash of the definition
that you have read. A definition that changes before you answer is refused.

What has a severe finding, is blocked or takes two people is left out of an approval of many, and named. With --all, so
is a definition that changed since it was approved. The exit code is 1 if anything was refused, or left out that was
named. Examples:

  portcullis approve fs:read_file
  portcullis approve fs:read_file --hash 3f2a9c0d17be --note "read it"
  portcullis approve --server fs --all --max-tier read
  portcullis tools --server fs --hashes > seen.txt
  portcullis approve --seen seen.txt --yes`
}

// A blockCmd is portcullis block.
type blockCmd struct{ decideCmd }

// Help implements kong's longer help.
func (blockCmd) Help() string {
	return `Nobody can use what is blocked until somebody unblocks or approves it, also if the server goes back to this
definition later. What is named is blocked without a question, as it is now or as --hash says. Examples:

  portcullis block fs:delete_file --note "nobody needs it"
  portcullis block --server fs --all --finding severe`
}

// A disableCmd is portcullis disable.
type disableCmd struct{ decideCmd }

// Help implements kong's longer help.
func (disableCmd) Help() string {
	return `What is named is locked without a question, whatever becomes of its definition; of what --all chooses it says how
much that is, and asks. A whole server is locked sooner by portcullis stop. Examples:

  portcullis disable fs:write_file --note "the disk is full" --tell
  portcullis disable --server fs --all --tier destructive`
}

// An enableCmd is portcullis enable.
type enableCmd struct{ decideCmd }

// Help implements kong's longer help.
func (enableCmd) Help() string {
	return `What was approved can be called again; what waits goes on to wait. Examples:

  portcullis enable fs:write_file
  portcullis enable --server fs --all`
}

// An unblockCmd is portcullis unblock.
type unblockCmd struct {
	askFlags
	said
	Items []itemName `arg:"" name:"name" help:"server:tool, server:prompt:name or server:resource:uri."`
}

// Validate implements kong's check of flags.
func (c unblockCmd) Validate() error {
	if (c.Hash != "" || c.Rev != 0) && len(c.Items) != 1 {
		return errors.New("--hash and --rev are of one item")
	}
	return c.gatewayFlags.Validate()
}

// Help implements kong's longer help.
func (unblockCmd) Help() string {
	return `Takes a block back. It approves nothing: the definition waits, or can be called where the server needs no approval.
Without --hash it is the definition of now that is unblocked. Example:

  portcullis unblock fs:delete_file`
}

// Run takes blocks back, one after the other.
func (c unblockCmd) Run(ctx context.Context, env *environment) error {
	g, err := c.open(ctx, env, approval.ActionUnblock)
	if err != nil {
		return err
	}
	defer g.close()
	d := decider{gateway: g, env: env, askFlags: c.askFlags, action: approval.ActionUnblock, said: c.said}
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
	Rev  int64    `placeholder:"N" help:"Revision that the decision made, as it was told: nothing is undone if it is another by now. Without it, that of this moment."`
}

// Help implements kong's longer help.
func (undoCmd) Help() string {
	return `Takes the last decision about one item back, for 10 minutes, unless a sync saw its definition change since. Example:

  portcullis undo fs:read_file`
}

// Run takes a decision back.
func (c undoCmd) Run(ctx context.Context, env *environment) error {
	g, err := c.open(ctx, env, approval.ActionUndo)
	if err != nil {
		return err
	}
	defer g.close()
	t, err := g.item(ctx, env, c.Item.ID)
	if err != nil {
		return err
	}
	if t.Record == nil || t.Record.UndoUntil.IsZero() {
		return fmt.Errorf("undo: nothing was undone: there is no decision about %s of the last 10 minutes that can be, or a sync saw the definition change since; decide anew", inLine(t.ID))
	}
	d := decider{gateway: g, env: env, askFlags: c.askFlags, action: approval.ActionUndo}
	return d.carryOut(ctx, c.Item.ID, map[string]any{"rev": cmp.Or(c.Rev, t.Record.Rev)}, func(now decide.Tool) string {
		return fmt.Sprintf("%s is undone. %s", inLine(t.Record.Undoes), standsAs(now))
	})
}
