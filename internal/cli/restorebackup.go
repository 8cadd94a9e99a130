package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
)

// maxDiffering is the maximum number of printed records for which a person must choose a version.
const maxDiffering = 50

// restore restores a backup, and prints the result.
func (c restoreCmd) restore(ctx context.Context, env *environment) error {
	t, err := c.runRestore(ctx)
	switch {
	case err == nil:
		if err := errors.Join(t.store.Close(), c.print(env.stdout, t.result(), t.show)); err != nil {
			return fmt.Errorf("restore: the copy is restored, and the result could "+
				"not be printed: %w", err)
		}
		return nil
	case errors.Is(err, syscall.ENOSPC):
		err = fmt.Errorf("the disk has no space for it: %w", err)
	case ctx.Err() != nil:
		err = errors.New("interrupted")
	}
	return fmt.Errorf("restore: %w; nothing was changed", err)
}

// runRestore restores a backup. If it returns an error, it has changed nothing. The caller closes
// the store.
func (c restoreCmd) runRestore(ctx context.Context) (*restoring, error) {
	if c.URL != "" {
		return nil, errors.New("a copy can be restored only in the gateway's folder, with --dir " +
			"and not with --url")
	}
	root := c.folder()
	if info, err := os.Stat(root); err != nil {
		return nil, fmt.Errorf("--dir %q: %w", root, err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("--dir %q is no folder", root)
	}
	copied, err := bolt.Inspect(c.File)
	if err != nil {
		return nil, err
	}
	snap, err := catalog.Load(ctx, dir.New(root), nil)
	if err != nil && !errors.Is(err, object.ErrNotFound) && !errors.Is(err, catalog.ErrUnusable) {
		return nil, err
	}
	t := &restoring{restoreCmd: c, path: filepath.Join(root, folder.ApprovalsFile), snap: snap, copied: copied}
	if err := t.open(ctx); err != nil {
		return nil, err
	}
	if err := t.take(ctx); err != nil {
		return nil, errors.Join(err, t.undo())
	}
	return t, nil
}

// A restoring is one run of restore FILE.
type restoring struct {
	restoreCmd
	path   string // of the store
	snap   *catalog.Snapshot
	copied bolt.Contents

	store     *bolt.Store
	kept      string // the old file under its new name; "": there was none
	bad       bool   // the old file was damaged
	came      bolt.RestoreReport
	unsettled []tool.ID // records for which nobody has chosen a version
}

// open opens the store, and keeps the old file.
func (t *restoring) open(ctx context.Context) (err error) {
	before, err := os.Stat(t.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if file, err := os.Stat(t.File); err == nil && before != nil && os.SameFile(before, file) {
		return errors.New("this is approvals.db itself, and no copy")
	}
	t.store, err = folder.OpenApprovals(t.folder(), &store.Options{LockWait: 10 * folder.Glance})
	switch s, runs := folder.FindInfo(t.folder()); {
	case errors.Is(err, bolt.ErrHeld) && runs:
		return fmt.Errorf("a gateway runs on %q, as process %d: stop it first", t.folder(), s.PID)
	case errors.Is(err, bolt.ErrDamaged), errors.Is(err, bolt.ErrUnconverted):
		t.bad = true
		if t.kept, err = setAside(t.path); err != nil {
			return err
		}
		if t.store, err = folder.OpenApprovals(t.folder(), nil); err != nil {
			return errors.Join(err, os.Rename(t.kept, t.path))
		}
		return nil
	case err != nil || before == nil:
		return err
	}
	t.kept, err = freeName(backupName(t.path, time.Now()), "", func(name string) error {
		return store.WriteFile(name, 0o600, store.Create, func(f *os.File) error {
			whole, _, _, err := t.store.Copy(ctx)
			if err != nil {
				return err
			}
			_, err = io.Copy(f, whole)
			return errors.Join(err, whole.Close())
		})
	})
	if err != nil {
		t.kept = ""
		return errors.Join(err, t.store.Close())
	}
	return nil
}

// take restores the backup, and compares it with the catalog.
func (t *restoring) take(ctx context.Context) (err error) {
	var known func(tool.ID) bool
	if t.snap != nil {
		known = func(id tool.ID) bool {
			i, ok := t.snap.Find(id)
			return ok && t.snap.Record(i) != nil
		}
	}
	t.came, err = t.store.RestoreBackup(ctx, t.File, bolt.RestoreOptions{Known: known, KeepTokens: t.KeepTokens, Actor: t.Actor})
	if err != nil {
		return err
	}
	// From here on, the restore has succeeded. If a step fails now, the next sync completes it.
	// Until then, calls use the stricter version.
	differ := map[tool.ID]bool{}
	for _, id := range t.came.Differ {
		differ[id] = true
	}
	ctx = context.WithoutCancel(ctx)
	if t.snap != nil {
		lost, err := catalog.RecoverAll(ctx, t.store, t.snap, time.Now)
		if err != nil {
			return nil //nolint:nilerr // as above
		}
		for _, r := range lost {
			differ[r.ID()] = true
		}
	}
	for id := range differ {
		t.unsettled = append(t.unsettled, id)
	}
	slices.SortFunc(t.unsettled, tool.ID.Compare)
	// Ignore an error of the audit, because the restore has already succeeded.
	_ = t.store.Events().PutEvent(ctx, audit.Line{
		V: audit.Version, Kind: audit.KindEvent, Time: time.Now().UTC(), Action: audit.ActionTakenBack, Actor: t.Actor,
		Note: fmt.Sprintf("%s of %s, the newest of %s", text.Count(t.came.Records, "record"), text.Clip(filepath.Base(t.File), 200), newest(t.copied)),
	})
	return nil
}

// A restoredCopy is the JSON output of a restore.
type restoredCopy struct {
	File    string   `json:"file"`
	Records int      `json:"records"`
	Newest  string   `json:"newest"`            // time of the newest record
	Kept    string   `json:"kept,omitempty"`    // the old file
	Damaged bool     `json:"damaged,omitempty"` // whether the old file was damaged
	Tokens  int      `json:"tokens"`
	Revoked int      `json:"revoked"`
	Choose  []string `json:"choose,omitempty"` // items for which a person chooses a version
}

func (t *restoring) result() restoredCopy {
	out := restoredCopy{File: t.File, Records: t.came.Records, Newest: newest(t.copied), Kept: t.kept,
		Damaged: t.bad, Tokens: t.came.Tokens, Revoked: t.came.Revoked}
	for _, id := range t.unsettled {
		out.Choose = append(out.Choose, id.String())
	}
	return out
}

// undo restores the old file.
func (t *restoring) undo() error {
	err := t.store.Close()
	switch {
	case t.bad: // keep the damaged file: a rename replaces the new file with it
		return errors.Join(err, os.Rename(t.kept, t.path))
	case t.kept != "":
		return errors.Join(err, os.Remove(t.kept))
	}
	return errors.Join(err, os.Remove(t.path))
}

// newest returns the time of the newest record in a copy.
func newest(c bolt.Contents) string {
	if c.Newest.IsZero() {
		return "unknown time"
	}
	return atMinute(c.Newest)
}

// show prints the result, and the next steps.
func (t *restoring) show(w io.Writer) {
	switch {
	case t.bad:
		fmt.Fprintf(w, "%s is damaged: it is kept as %s\n", t.path, t.kept)
	case t.kept != "":
		fmt.Fprintf(w, "the old file is kept as %s\n", t.kept)
	}
	fmt.Fprintf(w, "restored %s of %s; the newest record is of %s\n",
		text.Count(t.came.Records, "record"), t.File, newest(t.copied))
	if t.came.Tokens > 0 {
		fmt.Fprintf(w, "%s restored, %d of them revoked now",
			text.Count(t.came.Tokens, "agent token"), t.came.Revoked)
		if t.came.Revoked > 0 {
			fmt.Fprint(w, ": it is not known whether they were revoked after the copy; make new ones")
		}
		fmt.Fprintln(w)
	}
	if t.kept == "" || t.bad {
		fmt.Fprintln(w, "lost: decisions after the copy and after the last sync; tokens and "+
			"stops that are newer than the copy; requests of agents, grants and sign-ins")
	} else {
		fmt.Fprintln(w, "the present tokens, stops, requests, grants and sessions were not changed")
	}
	if len(t.unsettled) == 0 {
		fmt.Fprintln(w, "according to the last sync no record is newer than the copy: all "+
			"records are as they were")
		return
	}
	fmt.Fprintf(w, "%s: there are two versions, or a later decision may be lost; the stricter "+
		"version is in use:\n", text.Count(len(t.unsettled), "record"))
	for _, id := range t.unsettled[:min(len(t.unsettled), maxDiffering)] {
		fmt.Fprintf(w, "  %s\n", inLine(id.String()))
	}
	if more := len(t.unsettled) - maxDiffering; more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
	in := t.gatewayArgs()
	if t.unlisted() {
		fmt.Fprintf(w, "the tool catalog here does not have all of their servers: run portcullis sync%s first\n", in)
	}
	fmt.Fprintf(w, "choose the version that counts:\n  portcullis restore%s            the "+
		"last known version\n  portcullis approvals accept%s   the version of the copy\n", in, in)
}

// unlisted reports whether the catalog lacks the server of an unsettled record. A person can choose
// the version of such a record after a sync.
func (t *restoring) unlisted() bool {
	return slices.ContainsFunc(t.unsettled, func(id tool.ID) bool {
		if t.snap == nil {
			return true
		}
		_, ok := t.snap.Server(id.Server)
		return !ok
	})
}
