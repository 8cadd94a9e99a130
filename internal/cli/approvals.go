package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/people/auditevent"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	stops "github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
)

// An approvalsCmd is portcullis approvals.
type approvalsCmd struct {
	Write approvalsWriteCmd `cmd:"" help:"Write the approved definitions into a lock file."`
	Check approvalsCheckCmd `cmd:"" help:"Compare the lock file with the gateway."`
	Apply approvalsApplyCmd `cmd:"" help:"Approve the definitions in the lock file."`
	Carry carryCmd          `cmd:"" changes:"approvals carry" help:"Approve definitions that a new version of a package left unchanged."`

	Accept  acceptCmd  `cmd:"" help:"Accept approvals.db as it is now."`
	Backup  backupCmd  `cmd:"" hidden:"" changes:"backup"`
	Restore restoreCmd `cmd:"" hidden:""`
}

// A restoreCmd is portcullis restore.
type restoreCmd struct {
	askFlags
	File       string `arg:"" optional:"" help:"Copy to restore. Without it, the command restores from the tool catalog."`
	KeepTokens bool   `help:"With a FILE: do not revoke restored agent tokens. Use it only if no token was revoked since the copy was made."`
}

// Run restores a backup, or restores lost records from the catalog.
func (c restoreCmd) Run(ctx context.Context, env *environment) error {
	switch {
	case c.File != "":
		return c.restore(ctx, env)
	case c.KeepTokens:
		return errors.New("restore: --keep-tokens needs a FILE: it keeps " +
			"the tokens of that copy valid")
	}
	return c.reconcile(ctx, env, "restore", func(ctx context.Context, s *bolt.Store, snap *catalog.Snapshot) (auditevent.Restored, error) {
		p := auditevent.Restorer{
			Audit:     audit.Folder(filepath.Join(c.folder(), folder.AuditFolder)),
			Approvals: s, Stops: stops.NewStore(s), Tokens: token.NewStore(s), Requests: request.NewStore(s, nil), Now: time.Now,
		}
		return p.Restore(ctx, snap, c.Actor, nil)
	})
}

// An acceptCmd is portcullis approvals accept.
type acceptCmd struct{ askFlags }

// Run accepts the state of approvals.db for every lost record.
func (c acceptCmd) Run(ctx context.Context, env *environment) error {
	return c.reconcile(ctx, env, "approvals accept", func(ctx context.Context, s *bolt.Store, snap *catalog.Snapshot) (out auditevent.Restored, err error) {
		out.Settled, err = catalog.Reconcile(ctx, s, snap, approval.AcceptStore, c.Actor, time.Now)
		return out, err
	})
}

// reconcile opens approvals.db and calls how. This function decides about every record that the
// catalog has, but that approvals.db lacks or has in an older version. Then reconcile prints the
// result for each tool. If name is restore, it first renames a damaged approvals.db and creates a
// new file.
func (f askFlags) reconcile(ctx context.Context, env *environment, name string,
	how func(context.Context, *bolt.Store, *catalog.Snapshot) (auditevent.Restored, error)) error {
	if f.URL != "" {
		return reconcileEmbedded(ctx, env, f, name)
	}
	out, root := env.stdout, f.folder()
	if f.json() {
		out = env.stderr
	}
	snap, err := catalog.Load(ctx, dir.New(root), nil)
	switch {
	case errors.Is(err, object.ErrNotFound):
		return fmt.Errorf("%s: there is no tool catalog in %q, so the decisions are "+
			"not known", name, root)
	case errors.Is(err, catalog.ErrUnusable):
		return fmt.Errorf("%s: %w; if %s is damaged too, move it away; "+
			"then start the gateway, which makes a new catalog, and run this command again", name, err, folder.ApprovalsFile)
	case err != nil:
		return err
	}
	path := filepath.Join(root, folder.ApprovalsFile)
	wait := folder.Turns
	if _, runs := folder.FindInfo(root); runs {
		wait = folder.Glance
	}
	s, err := folder.OpenApprovals(root, &store.Options{LockWait: wait})
	switch {
	case errors.Is(err, bolt.ErrHeld) && wait == folder.Glance:
		return reconcileEmbedded(ctx, env, f, name)
	case errors.Is(err, bolt.ErrDamaged) && name == "restore":
		var kept string
		if kept, err = setAside(path); err == nil {
			fmt.Fprintf(out, "%s is damaged: it is kept as %s\nits agent tokens are lost; make new ones\n", path, kept)
			s, err = folder.OpenApprovals(root, nil)
		}
	}
	if err != nil {
		return err
	}
	done, err := how(ctx, s, snap)
	if err = errors.Join(err, s.Close()); err != nil {
		return fmt.Errorf("%s: after %s were reconciled: %w; run the command "+
			"again: it continues from there",
			name, text.Count(len(done.Settled), "record"), err)
	}
	answer := decide.ReconciliationOf(done)
	return f.print(env.stdout, answer, func(w io.Writer) { printReconciliation(w, answer) })
}

// reconcileEmbedded asks a running gateway to reconcile, and prints the result.
func reconcileEmbedded(ctx context.Context, env *environment, f askFlags, name string) error {
	g, err := f.open(ctx, env, name)
	if err != nil {
		return err
	}
	defer g.close()
	a, err := client.Reconcile.Do(ctx, g.Client, nil, client.Empty{}, strings.TrimPrefix(name, "approvals "))
	if err != nil {
		return err
	}
	return f.print(env.stdout, a, func(w io.Writer) { printReconciliation(w, a.Value) })
}

// printReconciliation prints the state of each lost record, and the decisions that the audit has
// but the catalog lacks.
func printReconciliation(w io.Writer, s decide.Reconciliation) {
	for _, t := range s.Tools {
		fmt.Fprintf(w, "%s: %s\n", inLine(t.ID), stateOf(approval.State(t.State), t.Disabled))
	}
	if more := s.Count - len(s.Tools); more > 0 {
		fmt.Fprintf(w, "and %d more\n", more)
	}
	fmt.Fprintf(w, "%s reconciled; no other record was lost\n", text.Count(s.Count, "record"))
	for _, list := range []struct {
		title   string
		actions []auditevent.Action
	}{
		{"locked again by decisions in the audit that are newer than the catalog:", s.Closed},
		{"not unlocked; if the decision is still right, decide again:", s.Decide},
		{"not locked again, because these items are not known; check them when their server " +
			"lists them:", s.Unknown},
	} {
		if len(list.actions) > 0 {
			fmt.Fprintln(w, list.title)
		}
		for _, a := range list.actions {
			at := a.At.UTC().Format(time.DateTime + " UTC")
			fmt.Fprintf(w, "  %s: %s by %s, %s\n", inLine(a.About), inLine(a.Action), inLine(a.By), at)
		}
	}
	if s.Faults > 0 {
		fmt.Fprintf(w, "the audit is damaged or changed in %s; nothing in these places unlocks a tool:\n", text.Count(s.Faults, "place"))
	}
	for _, fault := range s.Skipped {
		fmt.Fprintf(w, "  %s\n", inLine(fault))
	}
	if more := s.Faults - len(s.Skipped); more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
}

// stateOf returns a record's state in words.
func stateOf(state approval.State, disabled bool) string {
	s := map[approval.State]string{
		approval.Approved: "approved", approval.Pending: "waits for approval", approval.Changed: "changed, waits for approval",
		approval.Blocked: "blocked",
	}[state]
	if disabled {
		s += ", disabled"
	}
	return s
}

// setAside renames a damaged file, and returns its new path.
func setAside(path string) (string, error) {
	kept := path + ".damaged-" + time.Now().UTC().Format("2006-01-02T15-04-05.000Z")
	return kept, os.Rename(path, kept)
}
