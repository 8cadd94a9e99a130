package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
)

// What a gateway keeps in its folder, beside config and policy.
const (
	approvalsFile = "approvals.db" // what people decided
	auditFolder   = "audit"        // the lines of calls and events
)

// Stores are what a gateway has open in its folder.
type stores struct {
	dir       string
	objects   *dir.Store
	approvals *bolt.Store
	audit     *audit.Dir
	sealer    *seal.Sealer // nil: the settings have the key
	log       *slog.Logger
	readOnly  bool          // nothing is written into the folder
	program   *boot.Program // which days the audit is kept is in its config
}

// openStores opens what is in the folder, which is made if need be. It waits so long for another
// process to close it; 0: two seconds.
func openStores(folder string, s boot.Settings, wait time.Duration, log *slog.Logger) (_ *stores, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("--dir %q: %w", folder, err)
	}
	o := &stores{dir: folder, objects: dir.New(folder), log: log}
	if o.approvals, err = openApprovals(folder, &store.Options{KeepAudit: s.KeepAudit, LockWait: wait}); err != nil {
		return nil, err
	}
	if before := o.approvals.CopyBefore(); before != "" {
		log.Info("approvals converted", slog.String("copy_before", before))
	}
	sweepLeftOver(folder)
	if err = o.openRest(s); err != nil {
		_ = o.approvals.Close() // the first error counts
		return nil, fmt.Errorf("--dir %q: %w", folder, err)
	}
	return o, nil
}

// viewStores opens what is in the folder to be read. Nothing is written there: keys that the folder lacks are
// made up for this process.
func viewStores(folder string, s boot.Settings, wait time.Duration, log *slog.Logger) (_ *stores, err error) {
	o := &stores{dir: folder, objects: dir.New(folder), log: log, readOnly: true}
	if o.approvals, err = bolt.View(filepath.Join(folder, approvalsFile), &store.Options{KeepAudit: s.KeepAudit, LockWait: wait}); err != nil {
		return nil, err
	}
	if err = o.openRest(s); err != nil {
		_ = o.approvals.Close() // the first error counts
		return nil, fmt.Errorf("--dir %q: %w", folder, err)
	}
	return o, nil
}

// openApprovals opens the approvals of a folder, and removes what a killed gateway left there: while they
// are held, whoever finds that file takes the holder for the gateway and gives it the admin key.
func openApprovals(folder string, o *store.Options) (*bolt.Store, error) {
	s, err := bolt.Open(filepath.Join(folder, approvalsFile), o)
	if err != nil {
		return nil, err
	}
	if err := removeServeInfo(folder); err != nil {
		_ = s.Close() // the first error counts
		return nil, fmt.Errorf("--dir %q: %w", folder, err)
	}
	return s, nil
}

func (o *stores) openRest(s boot.Settings) (err error) {
	if o.sealer, err = sealer(o.dir, s, o.readOnly); err != nil {
		return err
	}
	if !o.readOnly && s.Access.TokenKey.Reveal() == tokenKeyDefault {
		if err := needTokenKey(o.dir); err != nil {
			return err
		}
	}
	o.audit, err = audit.OpenDir(filepath.Join(o.dir, auditFolder), &audit.DirOptions{
		ReadOnly: o.readOnly, Log: o.log, Days: func() int { return o.program.AuditDays() }, Limit: func() audit.Limit { return o.program.AuditLimit() },
	})
	return err
}

// build returns the gateway over the stores.
func (o *stores) build(s boot.Settings, more boot.Options) *boot.Program {
	more.Log, more.Sealer, more.Audit, more.Front, more.Folder = o.log, o.sealer, o.audit, boot.Local(), o.dir
	a := o.approvals
	if o.readOnly && s.Access.TokenKey.Reveal() == tokenKeyDefault {
		if _, err := os.Stat(filepath.Join(o.dir, tokenFile)); errors.Is(err, fs.ErrNotExist) {
			s.Access.TokenKey = newTokenKey().Text // no token is under it, as none is under the key of the next start
		}
	}
	kept := boot.NewStores(o.objects, a)
	kept.Events, kept.Usage, kept.Copier = a.Events(), a.Usage(), a
	o.program = boot.New(s, kept, more)
	return o.program
}

// close closes them. What goes wrong is logged: it is too late for whoever waited.
func (o *stores) close(ctx context.Context) {
	for _, part := range []struct {
		name  string
		close func() error
	}{{"audit", o.audit.Close}, {"approvals", o.approvals.Close}} {
		if err := part.close(); err != nil {
			o.log.LogAttrs(ctx, slog.LevelError, "a store was not closed cleanly", slog.String("store", part.name), slog.Any("error", err))
		}
	}
}

// hasGateway reports whether the folder has a config, or has had a gateway.
func hasGateway(folder string) bool {
	for _, key := range []string{filepath.FromSlash(config.Key), approvalsFile} {
		if _, err := os.Stat(filepath.Join(folder, key)); !errors.Is(err, fs.ErrNotExist) {
			return true // or it cannot be known: who opens it is told why
		}
	}
	return false
}

// noGateway says that there is none in a folder, and how one gets there.
func noGateway(folder string) error {
	return fmt.Errorf("there is no gateway in %q: neither %s nor %s is there; run portcullis init to begin one, or name another folder with --dir", folder, config.Key, approvalsFile)
}
