package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/doctor"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
)

const (
	oldBackup = 30 * 24 * time.Hour

	nearlyFull = 100 << 20 // free bytes of a disk
	full       = 5 << 20
)

// folder checks a gateway's folder, and asks the gateway that runs on it.
func (x *examination) folder(ctx context.Context) {
	dir := x.cmd.folder()
	settings, err := folder.Settings(x.env.getenv, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080})
	if err != nil {
		x.find("settings", "the environment", err.Error(), "")
	}
	s, runs := folder.FindInfo(dir)
	x.files(ctx, dir, runs)
	x.rights(dir)
	x.diskSpace(dir)
	x.backups(dir)
	x.ignored(dir)
	if x.storeOpens(dir, s, runs) && err == nil {
		x.health(ctx)
	}
	if err == nil {
		x.admins(ctx, settings.Access)
	}
	if base := settings.BaseURL; base != "" && x.env.getenv("PORTCULLIS_BASE_URL") != "" {
		x.plain(base, "PORTCULLIS_BASE_URL")
		if !client.ToLoopback(base) {
			x.reach(ctx, base, "base_url_unreached")
		}
	}
}

// files checks config, policy, catalog, and the variables that they use.
func (x *examination) files(ctx context.Context, dir string, runs bool) {
	// this check treats each variable as set, because unset variables get their own finding below
	set := func(string) string { return "set" }
	c, err := check(ctx, dir, set, io.Discard)
	again := "portcullis check " + connect.Shell(dir)
	say := func(kind string, f atFile) {
		code := "config_" + kind
		switch {
		case f.Message == noDenyRule:
			code = "nothing_denied"
		case f.File == c.policyPath:
			code = "policy_" + kind
		}
		x.find(code, fileAndLine(f), cmp.Or(f.Path, "the file")+": "+f.Message, again)
	}
	for _, f := range c.Faults {
		say("fault", f)
	}
	for _, f := range c.Warnings {
		say("warning", f)
	}
	switch {
	case err == nil, errors.Is(err, errCheck):
	case errors.Is(err, catalog.ErrNewer):
		x.find("catalog_newer", filepath.Join(dir, filepath.FromSlash(catalog.CurrentKey)), err.Error(), "")
	default:
		x.find("catalog_unread", filepath.Join(dir, filepath.FromSlash(catalog.CurrentKey)), err.Error(), "")
	}
	x.cfg = c.cfg
	if c.cfg == nil {
		return
	}
	names, unset := c.unset(x.env.getenv)
	for i, f := range unset {
		finding := x.find("variable_unset", fileAndLine(atFile{c.configPath, f}), f.Path+": "+f.Message, "export "+names[i]+"=…")
		if runs { // the gateway's environment may differ from this one
			finding.Severity = doctor.Warning
		}
	}
	x.secrets(c)
	if c.snap != nil {
		x.names(c.cfg, c.snap)
	}
}

// fileAndLine returns the path of a file with line and column.
func fileAndLine(f atFile) string {
	switch {
	case f.Line == 0:
		return f.File
	case f.Col == 0:
		return fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	return fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Col)
}

// secrets finds references that only the functions on AWS can resolve.
func (x *examination) secrets(c *checkup) {
	for _, s := range c.cfg.Servers {
		values := s.Headers
		if s.Command != nil {
			values = s.Command.Env
		}
		plain := values.Plain()
		for _, name := range slices.Sorted(maps.Keys(plain)) {
			_, _ = secret.Expand(plain[name], func(ref string) (string, error) {
				if kind, _, _ := strings.Cut(ref, ":"); kind != "env" {
					x.find("secret_elsewhere", c.configPath, fmt.Sprintf("%s of server %q refers to ${%s}.", name, s.Name, ref), "")
				}
				return "", nil
			})
		}
	}
}

// names finds tools whose names some clients do not accept. In direct mode such a client puts
// mcp__portcullis__ before a name, and accepts 64 characters in all.
func (x *examination) names(cfg *config.Config, snap *catalog.Snapshot) {
	const most = 64 - len("mcp__portcullis__")
	if cfg.Gateway.Mode != "direct" {
		return
	}
	var long []string
	for i := range snap.Len() {
		id := snap.ID(i) // of a tool
		name := id.Direct()
		if cfg.Gateway.Bare {
			name = id.Name
		}
		if len(name) > most {
			long = append(long, id.String())
		}
	}
	if len(long) > 0 {
		x.find("name_long", text.Count(len(long), "tool"), fmt.Sprintf("Some clients name a tool mcp__portcullis__NAME and accept at most 64 characters. In direct mode they leave out: %s.", text.List(long, 10)), "")
	}
}

// rights checks who may read the files of the folder.
func (x *examination) rights(dir string) {
	if runtime.GOOS == "windows" { // Windows has no such mode bits
		return
	}
	for _, name := range []string{
		folder.KeyFile, folder.SealFile, folder.TokenFile, folder.VaultFile, folder.ApprovalsFile,
		folder.InfoFile, folder.AuditFolder,
	} {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm()&0o077 == 0 {
			continue
		}
		cause := fmt.Sprintf("Other users of this machine may read or write it (mode %04o).", info.Mode().Perm())
		if name == folder.VaultFile {
			x.find("vault_key_exposed", path, cause, "rm "+connect.Shell(path))
			continue
		}
		if name == folder.KeyFile || name == folder.SealFile || name == folder.TokenFile {
			if name == folder.TokenFile {
				cause += " If you remove it, every agent token becomes invalid."
			}
			x.find("key_exposed", path, cause, "rm "+connect.Shell(path))
			continue
		}
		mode := info.Mode().Perm() &^ 0o077
		x.find("file_mode", path, cause, fmt.Sprintf("chmod %04o %s", mode, connect.Shell(path))).Fix = func() error { return os.Chmod(path, mode) }
	}
}

// diskSpace checks whether the folder is writable, and how much space remains.
func (x *examination) diskSpace(dir string) {
	if err := writable(dir); err != nil {
		x.find("folder_unwritable", dir, err.Error(), "chmod u+rwx "+connect.Shell(dir))
		return
	}
	left, ok := diskLeft(dir)
	if !ok || left > nearlyFull {
		return
	}
	finding := x.find("disk_full", dir, fmt.Sprintf("%d MB are left on its disk.", left>>20), "df -h "+connect.Shell(dir))
	if left < full {
		finding.Severity = doctor.Fault
	}
}

// backups finds old copies that nobody has removed.
func (x *examination) backups(dir string) {
	var old []string
	for _, pattern := range []string{"*.bak-*", "*.damaged-*", "config/*.bak-*"} {
		found, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
		if err != nil {
			continue // the folder's own name contains a pattern
		}
		for _, path := range found {
			if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > oldBackup {
				old = append(old, path)
			}
		}
	}
	if len(old) > 0 {
		x.find("backups_old", dir, fmt.Sprintf("%s older than 30 days: %s.", text.Count(len(old), "backup"), text.List(old, 10)), "")
	}
}

// ignored checks whether Git would add keys, state or secrets of the folder to a repository.
func (x *examination) ignored(dir string) {
	top, ok := repositoryOf(dir)
	if !ok {
		return
	}
	folder, err := filepath.Abs(dir)
	if err != nil {
		return
	}
	x.secretFiles(top, folder)
	if isIgnored(top, folder, true) {
		return
	}
	file := filepath.Join(dir, ".gitignore")
	lacks, _, err := lackIgnored(file, ignored())
	if err != nil || len(lacks) == 0 {
		return
	}
	cause := "The folder is in a Git repository, and nothing keeps these out of it: " + strings.Join(lacks, ", ") + "."
	x.find("gitignore_lacks", file, cause, "portcullis init "+connect.Shell(dir)).Fix = func() error {
		_, err := addIgnored(file, ignored())
		return err
	}
}

// secretFiles finds files with secrets that Git would add to a repository.
func (x *examination) secretFiles(top, dir string) {
	var names []string
	if x.cfg != nil {
		names = slices.Collect(maps.Keys(usedVariables(x.cfg)))
	}
	for _, file := range secretFiles(top, dir, names) {
		rel, err := filepath.Rel(top, file)
		if err != nil || isIgnored(top, file, false) {
			continue
		}
		where := filepath.Join(top, ".gitignore")
		run := fmt.Sprintf("echo %s >> %s", connect.Shell(ignoreLine(rel)), connect.Shell(where))
		cause := "It holds secrets, and no .gitignore of the Git repository " + top + " names it."
		f := x.find("secrets_unignored", file, cause, run)
		if within, err := filepath.Rel(dir, file); err == nil && filepath.IsLocal(within) {
			f.Fix = func() error {
				_, err := ignoreFile(dir, file)
				return err
			}
		}
	}
}

// storeOpens checks the file of the approvals, and reports whether the gateway of the folder can
// answer.
func (x *examination) storeOpens(dir string, s folder.Info, runs bool) bool {
	path, left := filepath.Join(dir, folder.ApprovalsFile), filepath.Join(dir, folder.InfoFile)
	_, err := os.Stat(path)
	_, servedErr := os.Stat(left)
	if errors.Is(err, fs.ErrNotExist) {
		if servedErr == nil && !runs {
			x.stale(left, s)
		}
		x.find("not_started", dir, "No gateway has run on this folder yet.", x.commandLine("serve"))
		return false
	}
	db, err := bolt.View(path, &store.Options{LockWait: folder.Glance})
	switch {
	case err == nil:
		_ = db.Close() // the file was only read
		if servedErr == nil {
			x.stale(left, s)
		}
		return true
	case errors.Is(err, bolt.ErrHeld) && runs:
		return true
	case errors.Is(err, bolt.ErrHeld):
		x.find("approvals_held", path, err.Error(), "fuser "+connect.Shell(path))
	case errors.Is(err, bolt.ErrDamaged):
		x.find("approvals_damaged", path, err.Error(), x.commandLine("restore"))
	default:
		x.find("folder_unopened", path, err.Error(), "")
	}
	return false
}

// stale adds a finding if a killed gateway left its info file.
func (x *examination) stale(path string, s folder.Info) {
	cause := fmt.Sprintf("It names a gateway (process %d) that does not run on this folder.", s.PID)
	x.find("serve_stale", path, cause, "rm "+connect.Shell(path)).Fix = func() error {
		switch _, runs, err := folder.Running(filepath.Dir(path)); {
		case err != nil:
			return err
		case runs:
			return errors.New("a gateway was started in the meantime, and wrote the file again")
		}
		return folder.RemoveInfo(filepath.Dir(path))
	}
}
