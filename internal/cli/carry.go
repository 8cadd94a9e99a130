package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A carryCmd is portcullis approvals carry.
type carryCmd struct {
	askFlags
	Server string `arg:"" help:"Name of the server whose version changed."`
	Hash   string `placeholder:"HASH" help:"Hash of the list that you have read. If the list has changed, nothing is decided."`
	Note   string `placeholder:"TEXT" help:"Why."`
}

// Run approves the unchanged definitions.
func (c carryCmd) Run(ctx context.Context, env *environment, g *gateway) error {
	list, err := g.list(ctx, env, decide.Filter{Status: string(lock.PendingApproval), Server: c.Server, For: decide.ActionCarry}, 1)
	if err != nil {
		return err
	}
	if len(list.Upgrades) == 0 {
		fmt.Fprintf(env.stderr, "no definition of %s waits only because its version changed; nothing was decided\n", inLine(c.Server))
		return nil
	}
	d := &decider{gateway: g, env: env, askFlags: c.askFlags, decisionFlags: decisionFlags{Hash: c.Hash, Note: c.Note}, action: decide.ActionCarry}
	s, err := d.bulkConfirmationOf(ctx, list.Upgrades[0].Tools, decideCmd{})
	if err != nil {
		return err
	}
	fmt.Fprintln(env.stderr, sameServer+upgradeText(list.Upgrades[0]))
	hash := showCarried(env.stderr, s)
	if len(s.rows) == 0 {
		return nil
	}
	if c.Hash != "" {
		same, err := hashNamed(c.Hash, hash)
		if err != nil {
			return fmt.Errorf("carry: %w", err)
		}
		if same == "" {
			return fmt.Errorf("carry: --hash names another list: the hash of the list is %s now. Nothing was decided. Read the list again", shortHash(hash))
		}
	}
	if err := d.confirmRead(fmt.Sprintf("Approve %s, for all agents?", kindsOrItems(s.rows)), "list"); err != nil {
		return err
	}
	return d.decideAll(ctx, s.rows, 0)
}

// showCarried prints the definitions that the command approves, and returns a hash of the list.
func showCarried(w io.Writer, s *bulkConfirmation) tool.Hash {
	sum := sha256.New()
	for _, r := range s.rows {
		fmt.Fprintf(sum, "%q %s\n", r.ID, r.Hash)
		fmt.Fprintf(w, "  %s %s\n", inLine(r.ID), shortHash(r.Hash))
	}
	s.show(w, approval.ActionApprove, true)
	hash := tool.Hash(hex.EncodeToString(sum.Sum(nil)))
	if len(s.rows) > 0 {
		fmt.Fprintf(w, "hash of this list: %s\n", shortHash(hash))
	}
	return hash
}

// sameServer is the beginning of the line about a server with a new version.
const sameServer = "same server, new version: "

// upgradeText returns how many definitions of a server are unchanged in its new version.
func upgradeText(up decide.Upgrade) string {
	return fmt.Sprintf("%s: %s (approved in %s, now %s)", inLine(up.Server),
		text.Count(len(up.Tools), "unchanged definition"), inLine(text.List(up.Before, 3)), inLine(up.Now))
}

// upgradeLines returns a line for each server with unchanged definitions in a new version. Lists
// and the status show these lines.
func upgradeLines(all []decide.Upgrade) (out []string) {
	for _, up := range all {
		out = append(out, upgradeText(up)+"; portcullis approvals carry "+shellWord(inLine(up.Server))+" approves those")
	}
	return out
}
