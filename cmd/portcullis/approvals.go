package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/alecthomas/kong"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/object"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
	"github.com/portcullis-mcp/portcullis/pkg/text"
)

// An approvalsCmd is portcullis approvals.
type approvalsCmd struct {
	Restore settleCmd `cmd:"" help:"Keep what the tool catalog recorded. A damaged file is kept under another name."`
	Accept  settleCmd `cmd:"" help:"Keep what approvals.db has now; what it lacks waits for approval."`
}

// A settleCmd is one of the two.
type settleCmd struct{ folder }

// Run decides for every record that the file lost, or had an older version of, whether the
// catalog's or the file's counts, and prints what became of each tool. restore keeps a damaged
// file under another name and makes a new one from the catalog.
func (c settleCmd) Run(ctx context.Context, command *kong.Context, env *environment) error {
	name, decide, out := command.Selected().Name, approval.AcceptStore, env.stdout
	if name == "restore" {
		decide = approval.KeepRestored
	}
	snap, err := catalog.Load(ctx, dir.New(c.Dir), nil)
	switch {
	case errors.Is(err, object.ErrNotFound):
		return fmt.Errorf("approvals %s: there is no tool catalog in %q, so what was decided is not known", name, c.Dir)
	case errors.Is(err, catalog.ErrUnusable):
		return fmt.Errorf("approvals %s: %w; move %s away yourself and start the gateway: everything waits for approval then", name, err, approvalsFile)
	case err != nil:
		return err
	}
	path := filepath.Join(c.Dir, approvalsFile)
	store, err := bolt.Open(path, nil)
	if errors.Is(err, bolt.ErrDamaged) && name == "restore" {
		if err = setAside(path, out); err == nil {
			store, err = bolt.Open(path, nil)
		}
	}
	if err != nil {
		return err
	}
	settled, err := catalog.Settle(ctx, store, snap, decide, c.Actor, time.Now)
	for _, r := range settled {
		fmt.Fprintf(out, "%s: %s\n", r.ID(), stateOf(r))
	}
	fmt.Fprintf(out, "%s settled; every other record was there\n", text.Count(len(settled), "record"))
	return errors.Join(err, store.Close())
}

// stateOf returns a record's state in words.
func stateOf(r approval.Record) string {
	s := map[approval.State]string{
		approval.Approved: "approved", approval.Pending: "waits for approval", approval.Changed: "changed, waits for approval",
		approval.Blocked: "blocked",
	}[r.State]
	if r.Disabled {
		s += ", disabled"
	}
	return s
}

// setAside renames a damaged file.
func setAside(path string, out io.Writer) error {
	kept := path + ".damaged-" + time.Now().UTC().Format("2006-01-02T15-04-05.000Z")
	if err := os.Rename(path, kept); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s is damaged: it is kept as %s\nagent tokens that it held are gone; make new ones\n", path, kept)
	return nil
}
