package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/internal/cli/clientfile"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
)

// An importCmd is portcullis import.
type importCmd struct {
	placeFlags
	From    []string          `arg:"" optional:"" placeholder:"CLIENT|FILE" help:"claude-desktop, claude-code, cursor, vscode, codex, gemini, windsurf, or a file of any of them."`
	All     bool              `help:"Import from every client that has servers on this machine."`
	DryRun  bool              `help:"Print the servers that would be imported, and change nothing."`
	Only    []string          `placeholder:"NAME" help:"Import only these servers."`
	Skip    []string          `placeholder:"NAME" help:"Leave these servers out."`
	As      map[string]string `placeholder:"NAME=NEW" help:"Give a server another name."`
	Accept  []string          `placeholder:"NAME.MEMBER" help:"Import these members too, which can do harm: the report lists them. An unknown member is an error."`
	Secrets string            `placeholder:"FILE" help:"Write plain-text credentials into this new file, as export lines for a shell; only you can read it. Without it no file gets them."`
	outputFlag
}

// Validate implements kong's check of flags.
func (c importCmd) Validate() error {
	if c.All == (len(c.From) > 0) {
		return errors.New("name a client or a file, or give --all")
	}
	return nil
}

// An importing is one run of import.
type importing struct {
	importCmd
	machine clientfile.Machine
	home    string // "": unknown
	env     *environment
	path    string // of the config
	before  []byte // the present config; nil: none
	servers []*clientfile.Server
	state   map[*clientfile.Server]string // the result for each server
	absent  []string                      // why named clients have no servers here
	added   int
	ignored bool // a .gitignore of the folder excludes the file of --secrets
	changed int  // existing servers that got an accepted member
}

// Run imports the servers.
func (c importCmd) Run(ctx context.Context, env *environment) error {
	var err error
	if c.Dir, err = c.local(); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	if c.All {
		for _, client := range clientfile.Clients() {
			c.From = append(c.From, client.ID)
		}
	}
	i := &importing{importCmd: c, env: env, path: filepath.Join(c.Dir, filepath.FromSlash(config.Key)), state: map[*clientfile.Server]string{}}
	if i.machine, err = thisMachine(env); err == nil {
		i.home, _ = i.machine.Home() // not needed if only files are named
		err = i.run(ctx)
	}
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	return nil
}

// thisMachine returns the folders in which clients look for their files.
func thisMachine(env *environment) (clientfile.Machine, error) {
	dir, err := os.Getwd()
	return clientfile.Machine{OS: runtime.GOOS, Getenv: env.getenv, Dir: dir}, err
}

func (i *importing) run(ctx context.Context) error {
	old, err := i.readConfig()
	if err != nil {
		return err
	}
	files, err := i.readFiles()
	if err != nil {
		return fmt.Errorf("%w; nothing was changed", err)
	}
	choice := clientfile.Choice{
		Only: i.Only, Skip: i.Skip, As: i.As, Accept: i.Accept, Used: usedVariables(old),
	}
	if i.servers, err = clientfile.Collect(files, choice); err != nil {
		return fmt.Errorf("%w; nothing was changed", i.shortErr(err))
	}
	after, err := i.merge()
	if err != nil {
		return fmt.Errorf("%w; nothing was changed", i.shortErr(err))
	}
	cfg, err := config.Parse(after)
	if err != nil {
		return i.refused(err)
	}
	if ctx.Err() != nil {
		return errors.New("interrupted; nothing was changed")
	}
	backup, err := i.write(ctx, after)
	if err != nil {
		return err
	}
	if err := i.report(backup, cfg); err != nil || len(i.absent) == 0 || i.All {
		return err
	}
	return fmt.Errorf("%s; the report above is about the others", strings.Join(i.absent, "; "))
}

// readConfig reads the gateway's config, which must be valid before an addition.
func (i *importing) readConfig() (*config.Config, error) {
	data, err := os.ReadFile(i.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return config.Parse([]byte(firstConfig))
	case err != nil:
		return nil, err
	}
	i.before = data
	cfg, err := config.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("the config must be valid before servers are added to it; "+
			"nothing was changed\n%s", prefixed(i.path+":", err.Error()))
	}
	return cfg, nil
}

// prefixed returns a text with the prefix before each line.
func prefixed(prefix, lines string) string {
	return prefix + strings.ReplaceAll(strings.TrimRight(lines, "\n"), "\n", "\n"+prefix)
}

// usedVariables returns the variables that a config refers to, with the servers that use them.
func usedVariables(cfg *config.Config) map[string][]string {
	used := map[string][]string{}
	for _, s := range cfg.Servers {
		for _, v := range s.Variables() {
			used[v.Name] = append(used[v.Name], s.Name)
		}
	}
	for n, target := range cfg.Notify {
		for _, v := range target.Variables(n) {
			used[v.Name] = append(used[v.Name], "")
		}
	}
	return used
}

// readFiles reads the named files, and the existing files of each named client.
func (i *importing) readFiles() ([]*clientfile.File, error) {
	var out []*clientfile.File
	for _, from := range i.From {
		client, ok := clientfile.Find(from)
		if !ok {
			f, err := i.readFile(from)
			switch {
			case errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(from, `./\`):
				return nil, fmt.Errorf("%q is neither a client nor a file; the clients are %s", from, clientNames())
			case errors.Is(err, fs.ErrNotExist):
				return nil, fmt.Errorf("there is no file %s", from)
			case err != nil:
				return nil, i.shortErr(err)
			case !f.Found:
				return nil, fmt.Errorf("%s has no servers: none of mcpServers, servers and "+
					"mcp_servers is there", i.short(from))
			}
			out = append(out, f)
			continue
		}
		files, err := i.readClient(client)
		if errors.Is(err, errAbsent) {
			i.absent = append(i.absent, err.Error())
		} else if err != nil {
			return nil, err
		}
		out = append(out, files...)
	}
	if len(out) == 0 && i.All {
		return nil, errors.New("none of the clients has servers on this machine; looked for " +
			clientNames())
	}
	if len(out) == 0 && len(i.absent) > 0 {
		return nil, errors.New(strings.Join(i.absent, "; "))
	}
	return out, nil
}

// errAbsent says that a client has no servers on this machine.
var errAbsent = errors.New("has no servers on this machine")

// readClient reads the existing files of a client.
func (i *importing) readClient(c clientfile.Client) (out []*clientfile.File, err error) {
	own, project, err := i.machine.Files(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.ID, err)
	}
	paths := slices.Concat(own, project)
	for _, p := range paths {
		f, err := i.readFile(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, i.shortErr(err)
		}
		out = append(out, f)
	}
	if !slices.ContainsFunc(out, func(f *clientfile.File) bool { return f.Found }) {
		for n := range paths {
			paths[n] = i.short(paths[n])
		}
		return nil, fmt.Errorf("%s %w; looked in %s. If its file is elsewhere, name the file",
			c.ID, errAbsent, strings.Join(paths, ", "))
	}
	return out, nil
}

func (i *importing) readFile(path string) (*clientfile.File, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return clientfile.Read(path, data, clientfile.Options{
		Getenv: i.env.getenv, Home: i.home, Own: i.leadsHere, Foreign: !i.machine.IsOwn(path),
	})
}

// leadsHere reports whether the gateway of the folder answers at an address.
func (i *importing) leadsHere(address string) bool {
	s, _ := folder.FindInfo(i.Dir)
	u, err := url.Parse(address)
	for _, base := range []string{s.Address, i.env.getenv("PORTCULLIS_BASE_URL")} {
		if own, e := url.Parse(base); err == nil && e == nil && base != "" && own.Host == u.Host && strings.HasPrefix(u.Path, strings.TrimSuffix(own.Path, "/")+"/mcp") {
			return true
		}
	}
	return false
}

// merge returns the config with the missing servers added.
func (i *importing) merge() ([]byte, error) {
	data := i.before
	if data == nil {
		data = []byte(firstConfig)
	}
	var have struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
	}
	if err := json.Unmarshal(data, &have); err != nil {
		return nil, err
	}
	folded := map[string]string{}
	for name := range have.Servers {
		folded[strings.ToLower(name)] = name
	}
	places := config.NewLocator(data)
	for _, s := range i.servers {
		there, isThere := folded[strings.ToLower(s.Name)]
		isSame := isThere && s.Left == "" && s.SameAs(have.Servers[there])
		if isThere && s.Left == "" && !isSame {
			at := places.Locate(config.Faults{{Path: config.JoinPath("mcpServers", there)}})[0]
			s.Clash(clientfile.Place{File: i.path, Line: at.Line})
		}
		var err error
		switch {
		case s.Left != "":
			i.state[s] = "left out"
		case isSame:
			data, err = i.complete(data, s, there, have.Servers[there])
		default:
			i.state[s] = "added"
			i.added++
			data, err = clientfile.SetJSON(i.path, data, []string{"mcpServers", s.Name}, s.Entry())
		}
		if err != nil {
			return nil, err
		}
	}
	return data, nil
}

// complete returns the config with the accepted members added to an existing server.
func (i *importing) complete(
	data []byte, s *clientfile.Server, there string, raw json.RawMessage,
) ([]byte, error) {
	lacks := s.Reconcile(raw)
	if i.state[s] = "is there"; len(lacks) == 0 {
		return data, nil
	}
	for _, m := range lacks {
		var err error
		at := append([]string{"mcpServers", there}, m.Path...)
		if data, err = clientfile.SetJSON(i.path, data, at, m.Value); err != nil {
			return nil, err
		}
	}
	i.state[s] = "changed"
	i.changed++
	return data, nil
}

// isWritten reports whether the import writes a part of the server into the config.
func (i *importing) isWritten(s *clientfile.Server) bool {
	return i.state[s] == "added" || i.state[s] == "changed"
}

// refused returns the fault that the gateway would report, with its place in the client's file.
func (i *importing) refused(err error) error {
	faults, _ := errors.AsType[config.Faults](err)
	var lines []string
	for _, f := range faults {
		line := text.Line(f.Path + ": " + f.Message)
		for _, s := range i.servers {
			if path := config.JoinPath("mcpServers", s.Name); i.isWritten(s) && (f.Path == path || strings.HasPrefix(f.Path, path+".") || strings.HasPrefix(f.Path, path+"[")) {
				line = i.short(s.String()) + ": " + line
			}
		}
		lines = append(lines, line)
	}
	return fmt.Errorf("a gateway would refuse the resulting config; nothing was changed. Leave "+
		"the server out with --skip, or correct its entry\n%s", strings.Join(lines, "\n"))
}

// write replaces the config, and writes the credentials into a file if requested.
func (i *importing) write(ctx context.Context, data []byte) (backup string, err error) {
	if i.DryRun || i.added+i.changed == 0 {
		return "", nil
	}
	if i.Secrets != "" {
		// the file of --secrets may be in this folder
		if err := os.MkdirAll(i.Dir, 0o700); err != nil {
			return "", fmt.Errorf("%w; nothing was changed", err)
		}
		err = createFile(i.Secrets, append([]byte(secretsMark), i.exports(true)...), 0o600)
		if errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("--secrets %s: the file exists, and may contain data that you "+
				"need: name another file; nothing was changed", i.Secrets)
		} else if err != nil {
			return "", fmt.Errorf("--secrets: %w; nothing was changed", err)
		}
		defer func() {
			if err != nil {
				_ = os.Remove(i.Secrets) // the config does not refer to it
			}
		}()
		if i.before == nil { // create .gitignore as init does
			if err = newInit(i.Dir).ignore(ctx, &initReport{}); err != nil {
				return "", err
			}
		}
		if i.ignored, err = ignoreFile(i.Dir, i.Secrets); err != nil {
			return "", fmt.Errorf("--secrets: .gitignore cannot be written, so the file was removed again: %w", err)
		}
	}
	if i.before == nil {
		if err := newInit(i.Dir).write(ctx, &initReport{}); err != nil {
			return "", err
		}
		if err := replaceFile(i.path, data, 0o644); err != nil {
			return "", fmt.Errorf("the config cannot be written: %w; it is as init has just "+
				"created it, without a server", err)
		}
		return "", nil
	}
	return configFile{i.Dir}.Replace(ctx, i.before, data)
}

// short returns a text with paths in their usual short form.
func (i *importing) short(s string) string {
	s = strings.ReplaceAll(s, i.machine.Dir+string(filepath.Separator), "")
	if i.home != "" {
		s = strings.ReplaceAll(s, i.home+string(filepath.Separator), "~"+string(filepath.Separator))
	}
	return s
}

func (i *importing) shortErr(err error) error { return errors.New(i.short(err.Error())) }

func clientNames() string {
	var out []string
	for _, c := range clientfile.Clients() {
		out = append(out, c.ID)
	}
	return strings.Join(out, ", ")
}
