// Package folder reads and writes the data in the folder of a gateway on one machine: stores, keys,
// and the address of a running gateway. If no gateway runs on a folder, a command uses this package
// to open the folder's gateway in its own process.
package folder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
)

// The files in a gateway's folder in addition to config and policy.
const (
	ApprovalsFile = "approvals.db" // decisions of people
	AuditFolder   = "audit"        // the lines of calls and events
	BackupFolder  = "backups"      // copies of the approvals
)

// Stores are the open stores of a gateway's folder.
type Stores struct {
	Objects   *dir.Store
	Approvals *bolt.Store

	dir      string
	audit    *audit.Dir
	sealer   *seal.Sealer // nil: the settings have the key
	log      *slog.Logger
	readOnly bool          // do not write into the folder
	program  *boot.Program // its config says for how many days the audit is kept
}

// Open opens the stores of the folder, and creates the folder if necessary. If another process has
// the stores open, it waits two seconds for that process to close them.
func Open(folder string, s boot.Settings, log *slog.Logger) (*Stores, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("--dir %q: %w", folder, err)
	}
	return open(folder, s, 0, log, false)
}

// open opens the stores of a folder. If another process has locked the folder, open waits for at
// most the duration wait. If readOnly is set, it writes nothing: keys that the folder lacks exist
// only in this process.
func open(folder string, s boot.Settings, wait time.Duration, log *slog.Logger, readOnly bool) (_ *Stores, err error) {
	o := &Stores{dir: folder, Objects: dir.New(folder), log: log, readOnly: readOnly}
	how := &store.Options{KeepAudit: s.KeepAudit, LockWait: wait}
	if readOnly {
		o.Approvals, err = bolt.View(filepath.Join(folder, ApprovalsFile), how)
	} else {
		o.Approvals, err = OpenApprovals(folder, how)
	}
	if err != nil {
		return nil, err
	}
	if before := o.Approvals.CopyBefore(); before != "" && !readOnly {
		log.Info("approvals converted", slog.String("copy_before", before))
	}
	if !readOnly {
		sweepLeftOver(folder)
	}
	if err = o.openRest(s); err != nil {
		_ = o.Approvals.Close() // the first error counts
		return nil, fmt.Errorf("--dir %q: %w", folder, err)
	}
	return o, nil
}

// OpenApprovals opens the approvals of a folder, and removes the info file of a killed gateway.
// Otherwise another process could read the address in the file, and send the admin key to a program
// that is not the gateway.
func OpenApprovals(folder string, o *store.Options) (*bolt.Store, error) {
	s, err := bolt.Open(filepath.Join(folder, ApprovalsFile), o)
	if err != nil {
		return nil, err
	}
	if err := RemoveInfo(folder); err != nil {
		_ = s.Close() // the first error counts
		return nil, fmt.Errorf("--dir %q: %w", folder, err)
	}
	return s, nil
}

func (o *Stores) openRest(s boot.Settings) (err error) {
	if o.sealer, err = sealer(o.dir, s, o.readOnly); err != nil {
		return err
	}
	if !o.readOnly && s.Access.TokenKey.Reveal() == tokenKeyDefault {
		if err := needTokenKey(o.dir); err != nil {
			return err
		}
	}
	o.audit, err = audit.OpenDir(filepath.Join(o.dir, AuditFolder), &audit.DirOptions{
		ReadOnly: o.readOnly, Log: o.log, Days: func() int { return o.program.AuditDays() }, Limit: func() audit.Limit { return o.program.AuditLimit() },
	})
	return err
}

// Build returns the gateway with these stores.
func (o *Stores) Build(s boot.Settings, more boot.Options) *boot.Program {
	more.Log, more.Sealer, more.Audit, more.Front, more.Folder = o.log, o.sealer, o.audit, boot.Local(), o.dir
	more.Vault, more.Table = VaultKey(o.dir), "folder"
	a := o.Approvals
	if o.readOnly && s.Access.TokenKey.Reveal() == tokenKeyDefault {
		if _, err := os.Stat(filepath.Join(o.dir, TokenFile)); errors.Is(err, fs.ErrNotExist) {
			// no token uses this key; it exists only in this process
			s.Access.TokenKey = NewTokenKey().Text
		}
	}
	kept := boot.NewStores(o.Objects, a)
	kept.Events, kept.Usage, kept.Copier = a.Events(), a.Usage(), a
	o.program = boot.New(s, kept, more)
	return o.program
}

// Close closes the stores. It only logs errors, because nobody waits for them.
func (o *Stores) Close(ctx context.Context) {
	for _, part := range []struct {
		name  string
		close func() error
	}{{"audit", o.audit.Close}, {"approvals", o.Approvals.Close}} {
		if err := part.close(); err != nil {
			o.log.LogAttrs(ctx, slog.LevelError, "a store was not closed cleanly", slog.String("store", part.name), slog.Any("error", err))
		}
	}
}

// HasGateway reports whether the folder has a config, or has had a gateway.
func HasGateway(folder string) bool {
	for _, key := range []string{filepath.FromSlash(config.Key), ApprovalsFile} {
		if _, err := os.Stat(filepath.Join(folder, key)); !errors.Is(err, fs.ErrNotExist) {
			// the file exists, or it is unknown whether it exists; then opening the folder returns
			// the reason
			return true
		}
	}
	return false
}

// NoGateway returns the error that a folder has no gateway, and how to create one.
func NoGateway(folder string) error {
	return fmt.Errorf("there is no gateway in %q: neither %s nor %s is there; run portcullis init to begin one, or name another folder with --dir", folder, config.Key, ApprovalsFile)
}

// leftOver matches the names of the temporary files of [store.WriteFile] that a killed program
// leaves in a gateway's folder. Earlier versions ended the names with digits.
var leftOver = regexp.MustCompile(
	`^\.tmp-(admin\.key|seal\.key|token\.key|vault\.key|serve\.json|mcp_config\.json|policy\.cedar|approvals-\d{8}T\d{6}Z\.db)-(\d+|[A-Z2-7]{26})$`)

// sweepLeftOver removes temporary files that are older than an hour, because no command needs a
// temporary file for an hour.
func sweepLeftOver(dir string) {
	for _, below := range []string{".", "config", BackupFolder} {
		entries, _ := os.ReadDir(filepath.Join(dir, below)) // if this fails, old files only use space
		for _, e := range entries {
			info, err := e.Info()
			if err == nil && info.Mode().IsRegular() && leftOver.MatchString(e.Name()) && time.Since(info.ModTime()) > time.Hour {
				_ = os.Remove(filepath.Join(dir, below, e.Name()))
			}
		}
	}
}
