package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
)

// datedName matches the default names of copies.
var datedName = regexp.MustCompile(`^approvals-\d{8}T\d{6}Z(-\d+)?\.db$`)

// A backupCmd is portcullis backup.
type backupCmd struct {
	askFlags
	File string `arg:"" optional:"" help:"File for the copy, which must not exist yet. Without it, backups/approvals-TIME.db in the gateway's folder."`
	Keep int    `placeholder:"N" help:"Afterwards keep the newest N copies with dated names, and remove the others. 0 removes none."`
}

// Validate implements kong's check of flags.
func (c backupCmd) Validate() error {
	switch {
	case c.Keep < 0:
		return errors.New("--keep: want a number of copies")
	case c.Keep > 0 && c.File != "":
		return errors.New("--keep removes copies with dated names: leave the FILE out")
	}
	return c.gatewayFlags.Validate()
}

// Run makes a copy.
func (c backupCmd) Run(ctx context.Context, env *environment, g *gateway) error {
	const name = "backup"
	path := c.File
	if path == "" {
		folder := filepath.Join(c.folder(), folder.BackupFolder)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		path = filepath.Join(folder, "approvals-"+time.Now().UTC().Format(stamp)+".db")
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("%s: %w; make the folder first", name, err)
	}
	// Check this before the gateway makes a copy, because its audit records each copy.
	if _, err := os.Lstat(path); err == nil && c.File != "" {
		return fmt.Errorf("%s: %w", name, existsError(path))
	}
	res, err := g.Backup(ctx)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var contents bolt.Contents
	place := store.Create
	if c.File == "" {
		place = func(root *os.Root, from, to string) error {
			name, err := freeName(strings.TrimSuffix(to, ".db"), ".db", func(name string) error {
				return store.Create(root, from, name)
			})
			path = filepath.Join(filepath.Dir(path), name)
			return err
		}
	}
	err = store.WriteFile(path, 0o600, place, func(f *os.File) error {
		if err := receive(f, res); err != nil {
			return err
		}
		contents, err = bolt.Inspect(f.Name())
		return err
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("%s: interrupted; no copy was made", name)
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s: %w", name, existsError(path))
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%s: the disk has no space for the copy: %w; no copy was made", name, err)
	case err != nil:
		return fmt.Errorf("%s: %w; no copy was made", name, err)
	}
	c.sayKey(env)
	done := madeCopy{
		File: path, Records: contents.Records, Approved: contents.Approved,
		Tokens: contents.Tokens, Bytes: contents.Bytes,
	}
	if c.Keep > 0 {
		done.Removed, err = thin(filepath.Dir(path), c.Keep)
	}
	return errors.Join(err, c.print(env.stdout, done, done.show))
}

// A madeCopy is the result of a backup.
type madeCopy struct {
	File     string   `json:"file"`
	Records  int      `json:"records"`
	Approved int      `json:"approved"`
	Tokens   int      `json:"live_tokens"`
	Bytes    int64    `json:"bytes"`
	Removed  []string `json:"removed,omitempty"` // old copies
}

func (m madeCopy) show(w io.Writer) {
	fmt.Fprintf(w, "%s: %s, %d of them approved, %s, %s\n", m.File, text.Count(m.Records, "record"),
		m.Approved, text.Count(m.Tokens, "live token"), text.Count(int(m.Bytes), "byte"))
	for _, path := range m.Removed {
		fmt.Fprintf(w, "removed %s\n", path)
	}
}

// sayKey warns that the copy lacks the key of the sign-ins, if the folder has one. The copy omits
// the key so that a reader of the copy cannot read tokens.
func (c backupCmd) sayKey(env *environment) {
	key := filepath.Join(c.folder(), folder.VaultFile)
	if _, err := os.Stat(key); c.URL != "" || err != nil {
		return
	}
	fmt.Fprintf(env.stderr, "The copy has the gateway's sign-ins at servers, and not the key that "+
		"opens them. Keep a copy of %s in another place: without it each server needs a new sign-in.\n",
		inLine(key))
}

func existsError(path string) error {
	return fmt.Errorf("%q already exists, and nothing was written; name another file", path)
}

// receive writes an answer into a file. It fails if the length differs from Content-Length.
func receive(f *os.File, res *http.Response) error {
	n, err := io.Copy(f, res.Body)
	want := res.Header.Get("Content-Length")
	if err == nil && want != "" && want != strconv.FormatInt(n, 10) {
		err = fmt.Errorf("the answer ended early: %s of %s arrived",
			text.Count(int(n), "byte"), want)
	}
	return err
}

// thin removes the oldest copies with dated names from a folder, so that keep copies stay. It
// returns the removed copies.
func thin(folder string, keep int) (removed []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var dated []string
	for _, e := range entries {
		if e.Type().IsRegular() && datedName.MatchString(e.Name()) {
			dated = append(dated, e.Name())
		}
	}
	slices.SortFunc(dated, func(a, b string) int { // the oldest first
		const dated = len("approvals-" + stamp)
		return cmp.Or(cmp.Compare(a[:dated], b[:dated]), len(a)-len(b), cmp.Compare(a, b))
	})
	for _, name := range dated[:max(0, len(dated)-keep)] {
		path := filepath.Join(folder, name)
		if err := os.Remove(path); err != nil {
			return removed, fmt.Errorf("backup: the copy was made, but an old copy could not be "+
				"removed: %w", err)
		}
		removed = append(removed, path)
	}
	return removed, nil
}
