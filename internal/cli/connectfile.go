package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/clientfile"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// A connecting is one run of connect.
type connecting struct {
	connectCmd
	machine clientfile.Machine
	env     *environment
	client  clientfile.Client
}

// show prints the guide for people.
func (c *connecting) show(w io.Writer, g decide.Guide) {
	fmt.Fprintf(w, "%s, at %s: %s\n", g.Name, inLine(g.URL), authTexts[g.Auth])
	block := func(heading, text string) {
		if text != "" {
			fmt.Fprintf(w, "\n%s\n", heading)
			for line := range strings.Lines(text) {
				fmt.Fprintf(w, "    %s\n", strings.TrimRight(line, "\n"))
			}
		}
	}
	block("open this link ("+g.Label+"):", g.Link)
	block("run:", g.Command)
	block("then:", g.After)
	block("in the client:", g.Steps)
	for n, f := range g.Files {
		path := f.Path
		if p, err := c.machine.Expand(f.Path); err == nil {
			path = p
		}
		or := "the file "
		if n > 0 {
			or = "or the file "
		}
		if f.When != "" {
			path += " (" + f.When + ")"
		}
		block(or+path+":", f.Text)
	}
	if len(g.Traps) > 0 {
		fmt.Fprintln(w, "\nto know:")
	}
	for _, trap := range g.Traps {
		fmt.Fprintf(w, "  %s\n", trap)
	}
	fmt.Fprintln(w)
	c.next(w, g)
	fmt.Fprintf(w, "portcullis connect %s%s --write writes the entry into the file\n", c.client.ID, c.sameFlags())
}

// authTexts are the ways to authenticate, in words.
var authTexts = map[connect.Auth]string{
	connect.None:   "no authentication",
	connect.Bearer: "callers send a token",
	connect.OAuth:  "callers sign in with an issuer",
	connect.Signed: "callers sign their requests for AWS",
}

// sameFlags returns the flags that select the same entry in another run of connect.
func (c *connecting) sameFlags() string {
	var out strings.Builder
	for _, f := range [][3]string{
		{"dir", c.Dir, ""}, {"url", c.URL, ""}, {"toolset", c.Toolset, ""}, {"path", c.Path, ""}, {"auth", string(c.Auth), ""},
		{"name", c.Name, connect.DefaultName}, {"token-env", c.TokenEnv, connect.DefaultVariable}, {"file", c.File, ""},
	} {
		if f[1] != f[2] {
			fmt.Fprintf(&out, " --%s %s", f[0], connect.Shell(f[1]))
		}
	}
	if c.Project {
		out.WriteString(" --project")
	}
	return out.String()
}

// next prints how to get the token, and where to put it.
func (c *connecting) next(w io.Writer, g decide.Guide) {
	servers := "'*'"
	if g.Toolset != "" {
		servers = connect.Shell(strings.Join(g.Servers, ","))
	}
	then := map[connect.Place]string{
		connect.InVariable: "set it with export " + c.TokenEnv + "=… in the client's environment",
		connect.InPrompt:   "the client asks for it",
		connect.InFile:     "write it instead of pct_… in that file, which only you use",
	}[g.Token]
	if then != "" {
		fmt.Fprintf(w, "the token: portcullis token make --name %s --servers %s prints one; %s\n",
			c.client.ID, servers, then)
	}
}

// write writes the entry into the client's file.
func (c *connecting) write(ctx context.Context, g decide.Guide) error {
	path, text, err := c.target(g)
	if err != nil {
		return err
	}
	data, err := readFile(path)
	fresh := errors.Is(err, fs.ErrNotExist)
	if err != nil && !fresh {
		return fmt.Errorf("%w; nothing was changed", err)
	}
	change, err := clientfile.Merge(path, data, []byte(text), c.Replace)
	switch {
	case errors.Is(err, clientfile.ErrTaken):
		return fmt.Errorf("%w: --replace replaces it, --name NAME adds this one under another name; nothing was changed", err)
	case err != nil:
		return fmt.Errorf("%w; nothing was changed", err)
	case change.Same:
		fmt.Fprintf(c.env.stdout, "%s: the entry %s already exists; nothing was changed\n", path, c.Name)
		return nil
	case ctx.Err() != nil:
		return errors.New("interrupted; nothing was changed")
	}
	backup, err := c.put(path, change.Data, fresh)
	if err != nil {
		return fmt.Errorf("%w; the client's file is unchanged", err)
	}
	return printWhole(c.env.stdout, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %s", path, map[bool]string{true: "created with", false: "now has"}[fresh])
		fmt.Fprintf(w, " the entry %s for %s\n", c.Name, inLine(g.URL))
		if backup != "" {
			fmt.Fprintf(w, "copy of the old file: %s\n", backup)
		}
		fmt.Fprintf(w, "to undo: portcullis connect %s --undo%s\n", c.client.ID, c.againUndo())
		c.next(w, g)
		if g.After != "" {
			fmt.Fprintf(w, "then: %s\n", g.After)
		}
		if g.Steps != "" && g.Link == "" {
			fmt.Fprintf(w, "then: %s\n", g.Steps)
		}
	})
}

// againUndo returns the flags with which --undo finds the entry.
func (c *connecting) againUndo() string {
	u := *c
	u.Dir, u.Toolset, u.Path, u.Auth, u.TokenEnv = "", "", "", "", connect.DefaultVariable
	return u.sameFlags()
}

// put writes the client's file, and keeps a copy of the old one.
func (c *connecting) put(path string, data []byte, fresh bool) (backup string, err error) {
	if fresh {
		mode, folder := fs.FileMode(0o600), fs.FileMode(0o700)
		if c.Project { // a file of a repository needs no restricted mode
			mode, folder = 0o644, 0o755
		}
		if err := os.MkdirAll(filepath.Dir(path), folder); err != nil {
			return "", err
		}
		return "", createFile(path, data, mode)
	}
	if backup, err = backUp(path, time.Now(), fs.ModePerm); err != nil {
		return "", err
	}
	if err = replaceFile(path, data, 0o600); err != nil {
		_ = os.Remove(backup) // the file is unchanged
	}
	return backup, err
}

// target returns the file to write and its entry: the first file of the guide that belongs to the
// user, or another such file that exists on this machine.
func (c *connecting) target(g decide.Guide) (path, text string, err error) {
	if c.File != "" || c.Project {
		found, err := c.candidates()
		if err != nil {
			return "", "", err
		}
		if (clientfile.FormatOf(found[0], nil) == clientfile.TOML) != (c.client.ID == "codex") {
			err = fmt.Errorf("--file %s is not a file of %s", c.File, c.client.ID)
		}
		return found[0], g.Files[0].Text, err
	}
	for _, f := range g.Files {
		if !strings.HasPrefix(f.Path, "~") { // it is the project's
			continue
		}
		p, err := c.machine.Expand(f.Path)
		if err != nil {
			return "", "", err
		}
		_, err = os.Stat(p)
		if path == "" || err == nil {
			path, text = p, f.Text
		}
		if err == nil {
			break
		}
	}
	return path, text, nil
}

// errNoEntry says that a client's files have no entry to remove.
var errNoEntry = errors.New("no entry")

// undo removes the entry from the client's files.
func (c *connecting) undo() error {
	found, err := c.candidates()
	if err != nil {
		return err
	}
	changes := map[string][]byte{}
	for _, path := range found {
		data, err := readFile(path)
		if errors.Is(err, fs.ErrNotExist) && c.File == "" {
			continue
		} else if err != nil {
			return err
		}
		change, err := clientfile.Remove(path, data, c.client.Holder, c.Name)
		if err == nil && !change.Same {
			err = c.ours(path, data)
		}
		if err != nil {
			return fmt.Errorf("%w; nothing was changed", err)
		}
		if !change.Same {
			changes[path] = change.Data
		}
	}
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		backup, err := c.put(path, changes[path], false)
		if err != nil {
			return fmt.Errorf("%w; this file is unchanged", err)
		}
		fmt.Fprintf(c.env.stdout, "%s: the entry %s was removed; copy of the old file: %s\n", path, c.Name, backup)
	}
	if len(changes) == 0 {
		return fmt.Errorf("%w %q to remove in %s", errNoEntry, c.Name, strings.Join(found, ", "))
	}
	return nil
}

// candidates returns the files that may have the entry: the user's own files, or with --project the
// files of the folder.
func (c *connecting) candidates() ([]string, error) {
	if c.File != "" {
		path, err := filepath.Abs(c.File)
		return []string{path}, err
	}
	own, project, err := c.machine.Files(c.client)
	switch {
	case !c.Project:
		return own, err
	case err == nil && len(project) == 0:
		err = fmt.Errorf("%s has no file for a folder: leave out --project", c.client.ID)
	}
	return project, err
}

// ours returns an error if the entry does not point to a gateway.
func (c *connecting) ours(path string, data []byte) error {
	own := func(address string) bool {
		base := strings.TrimSuffix(c.URL, "/")
		return base != "" && (address == base || strings.HasPrefix(address, base+"/"))
	}
	f, err := clientfile.Read(path, data, clientfile.Options{Getenv: c.env.getenv, Own: own})
	if err != nil {
		return err
	}
	for _, s := range f.Servers {
		if (s.Name == c.Name || s.Was == c.Name) && !s.Own {
			return fmt.Errorf("%s: the entry %q may belong to another program: give its address with --url, or remove it by hand", s, c.Name)
		}
	}
	return nil
}
