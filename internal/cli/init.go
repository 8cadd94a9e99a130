package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
)

// An initCmd is portcullis init.
type initCmd struct {
	positionalFolder
	outputFlag
}

// A positionalFolder is a folder that people name without a flag, or with one. Only these commands
// use neither PORTCULLIS_DIR nor the user's own folder.
type positionalFolder struct {
	Folder string `arg:"" optional:"" name:"dir" help:"Folder of the gateway. Without it, the current folder."`
	Dir    string `placeholder:"DIR" help:"The same folder as a flag."`
}

// AfterApply implements kong's hook.
func (f *positionalFolder) AfterApply() error {
	if f.Folder != "" && f.Dir != "" && f.Folder != f.Dir {
		return fmt.Errorf("%q and --dir %q name two folders: leave one of them out",
			f.Folder, f.Dir)
	}
	f.Dir = cmp.Or(f.Dir, f.Folder, ".")
	return nil
}

// newInit returns the command for a folder.
func newInit(dir string) initCmd { return initCmd{positionalFolder: positionalFolder{Dir: dir}} }

const (
	firstConfig = `{
  "$schema": "https://raw.githubusercontent.com/portcullis-mcp/portcullis/main/docs/mcp_config.schema.json",
  "mcpServers": {}
}
`
	firstPolicy = `// What agents may not do, in Cedar. The gateway permits everything that no forbid matches.
// This file denies nothing yet, because the rule below is a comment. If you remove the //, only the
// agent janitor may call tools whose names begin with delete_. All other agents see these tools as
// locked, with the reason and the contact.
//
// @id("no-deletes")
// @reason("Deletes go through the platform team.")
// @contact("platform@example.com")
// forbid (principal, action, resource)
// when { resource.name like "delete_*" }
// unless { principal == Agent::"janitor" };
//
// portcullis check prints what each rule denies before anything changes. The language of rules:
// https://github.com/portcullis-mcp/portcullis/blob/main/docs/policy.md
`
)

// Run writes the files, and prints the written files, the existing ones and the next steps.
func (c initCmd) Run(ctx context.Context, env *environment) error {
	report := &initReport{Dir: c.Dir, Files: []initFile{}}
	err := c.write(ctx, report)
	printing := c.print(env.stdout, report, func(w io.Writer) {
		for _, f := range report.Files {
			fmt.Fprintf(w, "%s: %s\n", f.File, f.State)
		}
		if err == nil {
			c.next(w)
		}
	})
	if err == nil {
		return printing
	}
	return fmt.Errorf("init: %w", err)
}

// An initReport says what init did with each file.
type initReport struct {
	Dir   string     `json:"dir"`
	Files []initFile `json:"files"`
}

type initFile struct {
	File  string `json:"file"`
	State string `json:"state"`
}

func (r *initReport) add(path, state string) { r.Files = append(r.Files, initFile{path, state}) }

func (c initCmd) write(ctx context.Context, report *initReport) error {
	if info, err := os.Stat(c.Dir); err == nil && !info.IsDir() {
		return fmt.Errorf("%q is a file, and a gateway needs a folder: name another", c.Dir)
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil { // it will contain keys
		return err
	}
	if err := os.MkdirAll(filepath.Join(c.Dir, filepath.Dir(filepath.FromSlash(config.Key))), 0o755); err != nil { //nolint:gosec // the folder belongs in a repository, so it needs no secrecy
		return err
	}
	if err := c.ignore(ctx, report); err != nil {
		return err
	}
	for _, f := range []struct{ key, text string }{{policy.Key, firstPolicy}, {config.Key, firstConfig}} {
		if ctx.Err() != nil {
			return errors.New("interrupted; run it again, and it writes the missing files")
		}
		path := filepath.Join(c.Dir, filepath.FromSlash(f.key))
		switch err := createFile(path, []byte(f.text), 0o644); {
		case errors.Is(err, fs.ErrExist):
			report.add(path, "it exists, and was not changed")
		case err != nil:
			return err
		default:
			report.add(path, "written")
		}
	}
	return nil
}

// ignore adds the missing lines to .gitignore.
func (c initCmd) ignore(ctx context.Context, report *initReport) error {
	if ctx.Err() != nil {
		return errors.New("interrupted; nothing was written")
	}
	path := filepath.Join(c.Dir, ".gitignore")
	added, err := addIgnored(path, ignored())
	switch {
	case err != nil:
		return err
	case len(added) == 0:
		report.add(path, "it has all lines, and was not changed")
	default:
		report.add(path, "added "+strings.Join(added, ", "))
	}
	return nil
}

// next prints the next steps.
func (c initCmd) next(report io.Writer) {
	place, flag := "", ""
	if c.Dir != "." {
		place, flag = " "+connect.Shell(c.Dir), " --dir "+connect.Shell(c.Dir)
	}
	fmt.Fprintln(report, "\nnext:")
	t := tabwriter.NewWriter(report, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  portcullis import claude-code%s\timport the servers of a client, or write "+
		"them into %s\n", flag, filepath.Join(c.Dir, filepath.FromSlash(config.Key)))
	fmt.Fprintf(t, "  portcullis check%s\tsee what is wrong, and what each rule denies\n", place)
	fmt.Fprintf(t, "  portcullis serve%s\trun the gateway; it reads every change of the files "+
		"within seconds\n", flag)
	_ = t.Flush() // cannot fail: it writes into memory
}
