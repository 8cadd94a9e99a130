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

// Help implements kong's longer help.
func (approveItemsCmd) Help() string {
	return `Agents may then call a tool as long as its definition stays this one. For each item that you name the command
prints the findings, and the words that were added and removed since the last approval (at most 40 lines, then the
command that prints all). Then it asks. Without a terminal, give the hash of the definition that you have read. A
definition that changes before you answer is not approved.

An approval of many items leaves out and names each item that the gateway would refuse, such as a blocked one. With
--all the command prints each definition that has findings, is annotated as destructive, or changed, before it asks.
Without --max-tier, --all leaves out each item above the tier read. A definition with a severe finding needs a --note.
The exit code is 1 if anything was refused, or if an item that you named was left out. Examples:

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
	return `A blocked definition stays locked until somebody unblocks or approves it, even if the server changes the definition and
later returns to it. Another definition of the item waits for approval as usual. Items that you name are blocked
without a question: the definition of now, or the one of --hash. Examples:

  portcullis block fs:delete_file --note "nobody needs it"
  portcullis block --server fs --all --finding severe`
}

// A disableCmd is portcullis disable.
type disableCmd struct{ decideCmd }

// Help implements kong's longer help.
func (disableCmd) Help() string {
	return `A disabled item stays locked until somebody enables it, even if its definition changes. Items that you name are
disabled without a question; --all prints how many items it chooses, and asks. To lock a whole server at once, use
portcullis stop. Examples:

  portcullis disable fs:write_file --note "the disk is full" --tell
  portcullis disable --server fs --all --tier destructive`
}

// An enableCmd is portcullis enable.
type enableCmd struct{ decideCmd }

// Help implements kong's longer help.
func (enableCmd) Help() string {
	return `An enabled item is callable again if its definition is approved. If the definition waits for approval, it still waits. Examples:

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
	return `No definition is approved by this: it waits for approval, or is callable if its server needs no approval. Without
--hash the definition of now is meant. Example:

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
	return `This is possible for 10 minutes, unless a sync has seen the definition change since. Example:

  portcullis undo fs:read_file`
}

// Run takes a decision back.
func (c undoCmd) Run(ctx context.Context, env *environment) error {
	g, err := c.open(ctx, env, approval.ActionUndo)
	if err != nil {
		return err
	}
	defer g.close()
	a, err := g.item(ctx, env, c.Item.ID, "")
	if err != nil {
		return err
	}
	was := decide.Record{Rev: 1}
	if r := a.Value.Record; r != nil {
		was = *r
	}
	d := decider{gateway: g, env: env, askFlags: c.askFlags, action: approval.ActionUndo}
	as := client.Decision{Seen: admin.Seen{Rev: cmp.Or(c.Rev, was.Rev)}}
	return d.carryOut(ctx, c.Item.ID, as, func(now decide.Tool) string {
		return fmt.Sprintf("%s is undone. %s", inLine(was.Undoes), standsAs(now))
	})
}
