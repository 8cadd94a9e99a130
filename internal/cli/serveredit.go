package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
)

// editFlags are the flags of the commands that change the servers in a folder's config.
type editFlags struct {
	placeFlags
	outputFlag
	DryRun bool   `help:"Print the change of the config, and change nothing."`
	Name   string `arg:"" name:"server" help:"Name of the server in the config."`
}

// A configEdit is one change of a server in a folder's config. Its exported fields are the JSON
// output.
type configEdit struct {
	Config   string   `json:"config"`
	Server   string   `json:"server"`
	Change   string   `json:"change"` // added, removed, enabled, disabled or none
	Written  bool     `json:"written"`
	Backup   string   `json:"backup,omitempty"`
	Note     string   `json:"note,omitempty"`     // why nothing had to change
	Warnings []string `json:"warnings,omitempty"` // that the config did not have before

	command       string
	file          configFile
	before, after []byte
	servers       *rawjson.Node // before
	at            *rawjson.Node // the server's entry before; nil: none
}

// edit changes the config. change returns the config after the change, and what it did; if that is
// "", it explains why nothing has to change.
func (c editFlags) edit(ctx context.Context, env *environment, command string,
	change func(*configEdit) (did, instead string, err error)) error {
	e := &configEdit{Server: c.Name, command: command}
	err := c.apply(ctx, e, change)
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return c.print(env.stdout, e, func(w io.Writer) { e.show(w, c) })
}

func (c editFlags) apply(
	ctx context.Context, e *configEdit, change func(*configEdit) (did, instead string, err error),
) error {
	dir, err := c.local()
	if err != nil {
		return err
	}
	if !folder.HasGateway(dir) {
		return folder.NoGateway(dir)
	}
	e.file = configFile{dir}
	e.Config = e.file.path()
	if e.before, err = e.file.Read(); err != nil {
		return fmt.Errorf("%w; nothing was changed", err)
	}
	root, err := rawjson.Parse(e.before)
	if err != nil {
		return fmt.Errorf(
			"%s is not JSON: portcullis check says where; nothing was changed",
			e.Config,
		)
	}
	e.servers = root.Get("mcpServers")
	e.at, e.after = e.servers.Get(c.Name), e.before
	did, instead, err := change(e)
	if err != nil {
		return fmt.Errorf("%w; nothing was changed", err)
	}
	if e.Change = did; did == "" {
		e.Change, e.Note = "none", instead
		return nil
	}
	if err := e.check(); err != nil || c.DryRun {
		return err
	}
	e.Backup, err = e.file.Replace(ctx, e.before, e.after)
	e.Written = err == nil
	return err
}

// check returns an error if a gateway would refuse the config, and collects the new warnings.
func (e *configEdit) check() error {
	cfg, err := config.Parse(e.after)
	if err != nil {
		return fmt.Errorf("a gateway would refuse the resulting config; nothing was changed\n%s",
			prefixed(e.Config+":", err.Error()))
	}
	old := config.Warnings(e.before)
	for _, w := range cfg.Warnings {
		if !slices.ContainsFunc(
			old,
			func(o config.Fault) bool { return o.Path == w.Path && o.Message == w.Message },
		) {
			e.Warnings = append(e.Warnings, text.Line(w.Path+": "+w.Message))
		}
	}
	return nil
}

// set puts a value at a path below mcpServers; nil removes it.
func (e *configEdit) set(value json.RawMessage, at ...string) (err error) {
	e.after, err = e.file.Set(e.after, at, value)
	return err
}

// requireServer returns an error if the config has no server with the name.
func (e *configEdit) requireServer() error {
	if e.at != nil {
		return nil
	}
	if e.servers == nil || len(e.servers.Keys) == 0 {
		return fmt.Errorf("%s has no servers", e.Config)
	}
	return fmt.Errorf("%s has no server %s; it has %s", e.Config, text.Quote(e.Server, 80),
		text.Line(text.List(e.servers.Keys, 12)))
}

// show prints the result for people.
func (e *configEdit) show(w io.Writer, c editFlags) {
	if e.Change == "none" {
		fmt.Fprintf(w, "%s; nothing was changed\n", e.Note)
		return
	}
	if c.DryRun {
		lines := diffLines(review.Lines(string(e.before), string(e.after)))
		fmt.Fprintf(
			w,
			"--- %s\n+++ %s, server %s %s\n",
			e.Config,
			e.Config,
			inLine(e.Server),
			e.Change,
		)
		marker{w: w}.hunks(lines)
		fmt.Fprintln(w, "nothing was changed, since this is a dry run")
	} else {
		fmt.Fprintf(w, "%s: server %s %s; copy of the old file: %s\n", e.Config, inLine(e.Server),
			e.Change, e.Backup)
	}
	for _, warning := range e.Warnings {
		fmt.Fprintf(w, "warning: %s\n", text.Clip(warning, 500))
	}
	if e.Written {
		e.next(w, c)
	}
}

// next prints when the change takes effect, and the next steps.
func (e *configEdit) next(w io.Writer, c editFlags) {
	_, runs, _ := folder.Running(c.folder()) // unknown counts as no: the text is then still true
	args := c.gatewayArgs()
	if runs {
		fmt.Fprintln(w, "the gateway that runs on the folder uses the change within seconds")
	} else {
		fmt.Fprintf(w, "the gateway uses the change when it runs: portcullis serve%s\n", args)
	}
	after, _ := config.Parse(e.after) // it was checked
	server, _ := after.Server(e.Server)
	switch {
	case e.Change == "removed":
		fmt.Fprintln(w, "the decisions about its tools, and its sign-in, stay stored: they "+
			"apply again if the server comes back")
	case e.Change == "disabled":
	case server.Command != nil:
		fmt.Fprintf(
			w,
			"it is a program: only portcullis serve --allow-commands%s starts it\n",
			args,
		)
	}
	if e.Change == "added" {
		fmt.Fprintf(w, "then: portcullis tools --server %s%s\n", connect.Shell(e.Server), args)
	}
}

// An addServerCmd is portcullis servers add.
type addServerCmd struct {
	editFlags
	Target []string `arg:"" name:"url|command" help:"URL of the server; or, after --, the command that starts it, and its arguments."`
	Header []string `placeholder:"NAME:VALUE" sep:"none" help:"Header of every request to a URL, such as 'Authorization:Bearer $${env:NOTION_TOKEN}'; repeatable."`
	Env    []string `placeholder:"NAME=VALUE" sep:"none" help:"Variable of a program, such as 'TOKEN=$${env:TOKEN}'. NAME alone passes on the gateway's variable; repeatable."`
	Cwd    string   `placeholder:"DIR" help:"Working directory of a program."`
}

// Run adds the server.
func (c addServerCmd) Run(ctx context.Context, env *environment) error {
	return c.edit(ctx, env, "servers add", func(e *configEdit) (did, instead string, err error) {
		for i, name := range e.names() {
			if strings.EqualFold(name, c.Name) {
				line := 1 + bytes.Count(e.before[:e.servers.Kids[i].NameOffset], []byte("\n"))
				return "", "", fmt.Errorf(
					"%s:%d already has the server %s: remove it first, or choose "+
						"another name",
					e.Config,
					line,
					text.Quote(name, 80),
				)
			}
		}
		entry, err := c.entry()
		if err != nil {
			return "", "", err
		}
		return "added", "", e.set(entry, c.Name)
	})
}

// names returns the names of the servers before the change.
func (e *configEdit) names() []string {
	if e.servers == nil {
		return nil
	}
	return e.servers.Keys
}

// entry returns the server's entry.
func (c addServerCmd) entry() (json.RawMessage, error) {
	d := config.Draft{Headers: c.Header, Env: c.Env, Cwd: c.Cwd}
	if len(c.Target) == 1 && strings.Contains(c.Target[0], "://") {
		d.URL = c.Target[0]
	} else if err := c.program(&d); err != nil {
		return nil, err
	}
	entry, err := d.Entry()
	return entry.Bytes(), err
}

// program adds the command line, which must start a program that exists.
func (c addServerCmd) program(d *config.Draft) (err error) {
	path := c.Target[0]
	if c.Cwd != "" {
		if d.Cwd, err = filepath.Abs(c.Cwd); err != nil {
			return err
		}
		if info, err := os.Stat(d.Cwd); err != nil || !info.IsDir() {
			return fmt.Errorf("--cwd %s is no folder", d.Cwd)
		}
	}
	if strings.ContainsAny(path, `/\`) && !filepath.IsAbs(path) {
		if path, err = filepath.Abs(filepath.Join(d.Cwd, path)); err != nil {
			return err
		}
	}
	d.Command = append([]string{path}, c.Target[1:]...)
	switch _, err := exec.LookPath(path); {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s is not executable", path)
	case err != nil && strings.ContainsAny(path, `/\`):
		return fmt.Errorf("there is no program %s (a URL begins with https:// or http://)", path)
	case err != nil:
		return fmt.Errorf(
			"no program %q is in a folder of PATH: install it first, or give its whole path",
			path,
		)
	}
	return nil
}

// A removeServerCmd is portcullis servers remove.
type removeServerCmd struct{ editFlags }

// Run removes the server.
func (c removeServerCmd) Run(ctx context.Context, env *environment) error {
	return c.edit(ctx, env, "servers remove", func(e *configEdit) (did, instead string, err error) {
		if err := e.requireServer(); err != nil {
			return "", "", err
		}
		return "removed", "", e.set(nil, c.Name)
	})
}

// An enableServerCmd is portcullis servers enable.
type enableServerCmd struct{ editFlags }

// Run enables the server.
func (c enableServerCmd) Run(ctx context.Context, env *environment) error {
	return c.turn(ctx, env, "servers enable", "enabled", true)
}

// A disableServerCmd is portcullis servers disable.
type disableServerCmd struct{ editFlags }

// Run disables the server.
func (c disableServerCmd) Run(ctx context.Context, env *environment) error {
	return c.turn(ctx, env, "servers disable", "disabled", false)
}

// turn enables or disables the server.
func (c editFlags) turn(
	ctx context.Context,
	env *environment,
	command, what string,
	on bool,
) error {
	return c.edit(ctx, env, command, func(e *configEdit) (did, instead string, err error) {
		if err := e.requireServer(); err != nil {
			return "", "", err
		}
		e.after, err = e.file.Enable(e.before, c.Name, on)
		if err == nil && bytes.Equal(e.after, e.before) {
			return "", fmt.Sprintf("the server %s is already %s", inLine(c.Name), what), nil
		}
		return what, "", err
	})
}
