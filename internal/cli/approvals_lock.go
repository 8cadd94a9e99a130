package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/lockfile"
	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A lockArg names the lock file of a command.
type lockArg struct {
	File string `arg:"" optional:"" default:"approvals.lock.json" help:"The lock file; without it, approvals.lock.json in the current folder."`
}

// read reads the file. An error names the file and the line of each fault.
func (a lockArg) read() (lockfile.File, error) {
	data, err := readFile(a.File)
	if err != nil {
		return nil, err
	}
	f, err := lockfile.Parse(data)
	faults, ok := errors.AsType[config.Faults](err)
	if !ok {
		return f, err
	}
	var lines []string
	for _, fault := range faults {
		lines = append(lines, a.File+":"+fault.String())
	}
	return nil, errors.New(strings.Join(lines, "\n"))
}

// mustRead reads the file, and fails if there is no file.
func (a lockArg) mustRead(command string) (lockfile.File, error) {
	f, err := a.read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: there is no %s; portcullis approvals write makes it, or name another file", command, a.File)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	return f, nil
}

// gatewayItems holds every item of a gateway, and the item's state in that gateway.
type gatewayItems struct {
	rows   map[tool.ID]decide.Row
	items  []lockfile.Item
	health decide.Health
}

// readItems reads the items of a gateway. It fails if the gateway lacks a usable config, catalog or
// approvals file.
func readItems(ctx context.Context, g *gateway) (s gatewayItems, err error) {
	health, err := client.Health.Do(ctx, g.Client, nil, nil)
	if err != nil {
		return s, err
	}
	s.health = health.Value
	for _, r := range s.health.Reasons {
		if r.Condition == state.Failing &&
			hasAnyPrefix(r.Code, "config_", "catalog_", "approvals_") {
			return s, fmt.Errorf("%s: the gateway does not know the approved definitions: %s %s",
				g.Command, text.Line(r.Message), text.Line(r.Action))
		}
	}
	list, err := g.List(ctx, decide.Filter{
		Sort: decide.ByID, For: approval.ActionApprove, Shown: decide.ShownLock,
	}, 0, nil)
	if err != nil {
		return s, err
	}
	s.rows = map[tool.ID]decide.Row{}
	for _, row := range list.Tools {
		id, err := tool.ParseID(row.ID)
		if err != nil {
			return s, fmt.Errorf("%s: the gateway's answer cannot be read: %w", g.Command, err)
		}
		if _, twice := s.rows[id]; !twice {
			s.rows[id] = row
			s.items = append(s.items, lockfile.Item{
				ID: id, Hash: row.Hash, Summary: row.Summary, Standing: lockStateOf(row),
			})
		}
	}
	return s, nil
}

// hasAnyPrefix reports whether a code has one of the prefixes.
func hasAnyPrefix(code string, begins ...string) bool {
	return slices.ContainsFunc(begins, func(b string) bool { return strings.HasPrefix(code, b) })
}

// lockStateOf returns the state of a definition. It returns Denied only for a definition that is
// not approved.
func lockStateOf(r decide.Row) lockfile.State {
	switch {
	case r.State == decide.StateBlocked:
		return lockfile.Blocked
	case r.Disabled || r.Status == string(lock.DisabledByUser):
		return lockfile.Disabled
	case r.Status == string(lock.PendingApproval):
		// State may be approved: a definition of a first list with a severe finding.
		return lockfile.Waiting
	case r.State == decide.StateApproved:
		return lockfile.Approved
	case r.Status == string(lock.DisabledByConfig):
		return lockfile.Denied
	case r.Status == decide.Callable:
		return lockfile.Open
	}
	return lockfile.Waiting
}

// checkServers returns an error if a server is neither in the gateway nor in the file.
func (s gatewayItems) checkServers(command string, servers []string, f lockfile.File) error {
	var known []string
	for _, i := range s.items {
		known = append(known, i.ID.Server)
	}
	for id := range f {
		known = append(known, id.Server)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	for _, name := range servers {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s: neither the gateway nor the file knows a server %s; they "+
				"know %s", command, text.Quote(name, 64), text.List(known, 20))
		}
	}
	return nil
}

// ofServers returns the items of the servers, or all items if names is empty.
func (s gatewayItems) ofServers(servers []string) (out []lockfile.Item) {
	for _, i := range s.items {
		if len(servers) == 0 || slices.Contains(servers, i.ID.Server) {
			out = append(out, i)
		}
	}
	return out
}

// readServers returns the servers of a gateway by name.
func readServers(ctx context.Context, g *gateway) (out map[string]decide.Server, err error) {
	all, err := g.Servers(ctx)
	out = map[string]decide.Server{}
	for _, s := range all {
		out[s.Name] = s
	}
	return out, err
}

// whyGone says why a gateway lacks an item.
func whyGone(id tool.ID, servers map[string]decide.Server) string {
	s, ok := servers[id.Server]
	switch {
	case !ok:
		return "The server is not in the gateway's config any more."
	case s.Outcome.Status != "available":
		return "The server did not load, and the gateway has never seen what it lists."
	}
	return "The server does not list it any more."
}

// An approvalsWriteCmd is portcullis approvals write.
type approvalsWriteCmd struct {
	gatewayFlags
	lockArg
	Pending bool     `help:"Also write definitions that wait for approval, with a mark. A merge of the file approves them."`
	Server  []string `placeholder:"NAME" help:"Rewrite only the entries of this server; repeatable."`
}

// Run writes the file.
func (c approvalsWriteCmd) Run(ctx context.Context, env *environment) error {
	const command = "approvals write"
	before, missing, err := c.before()
	if err != nil {
		return fmt.Errorf("%s: %w\nthe file was not changed: remove it first to write a new one",
			command, err)
	}
	g, err := c.view(ctx, env, command)
	if err != nil {
		return err
	}
	defer g.close()
	s, err := readItems(ctx, g)
	if err != nil {
		return err
	}
	for _, r := range s.health.Reasons {
		if hasAnyPrefix(r.Code, "approvals_", "tools_rebuilt") {
			return fmt.Errorf("%s: nothing was written, because the gateway's approvals are not "+
				"certain: %s %s", command, text.Line(r.Message), text.Line(r.Action))
		}
	}
	if err := s.checkServers(command, c.Server, before); err != nil {
		return err
	}
	now := lockfile.Take(before, s.ofServers(c.Server), c.Pending)
	for id, e := range before {
		if len(c.Server) > 0 && !slices.Contains(c.Server, id.Server) {
			now[id] = e
		}
	}
	return c.put(ctx, env, g, s, before, now, missing)
}

// before returns the current file. missing is true if there is no file, or if the path is a device
// or a pipe, such as /dev/stdout.
func (c approvalsWriteCmd) before() (f lockfile.File, missing bool, err error) {
	if info, err := os.Stat(c.File); err == nil && info.Mode()&(fs.ModeDevice|fs.ModeNamedPipe) != 0 {
		return lockfile.File{}, true, nil
	}
	f, err = c.read()
	if errors.Is(err, fs.ErrNotExist) {
		return lockfile.File{}, true, nil
	}
	return f, false, err
}

// put writes the file if its content changes, and prints the difference.
func (c approvalsWriteCmd) put(ctx context.Context, env *environment, g *gateway, s gatewayItems, before, now lockfile.File, missing bool) error {
	data := now.Bytes()
	if _, err := lockfile.Parse(data); err != nil { // never write a file that cannot be read again
		return fmt.Errorf("%s: nothing was written, because a lock file cannot hold an item "+
			"of the gateway: %w", g.Command, err)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: interrupted; nothing was written", g.Command)
	}
	same := false
	if !missing {
		was, err := os.ReadFile(c.File)
		same = err == nil && bytes.Equal(was, data)
	}
	if !same {
		if err := replaceFile(c.File, data, 0o644); err != nil {
			return fmt.Errorf("%s: %s was not written: %w", g.Command, c.File, bare(err))
		}
	}
	fmt.Fprintf(env.stdout, "%s: %s of %s", c.File, entries(len(now)), text.Count(now.Servers(), "server"))
	if n := now.Pending(); n > 0 {
		fmt.Fprintf(env.stdout, ", %d marked as pending", n)
	}
	switch d := lockfile.Difference(before, now); {
	case missing:
		fmt.Fprintln(env.stdout, "; it is new")
	case same:
		fmt.Fprintln(env.stdout, "; the file did not change")
	default:
		fmt.Fprintf(env.stdout, "; +%d -%d ~%d\n", d.Added, d.Removed, d.Changed)
	}
	return c.leftOut(ctx, env, g, s, before, now)
}

// bare returns an error without its path, because the path may name a temporary file.
func bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// entries returns a number of entries in words.
func entries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// leftOut prints how many items the file lacks and why. It also prints the servers that did not
// load and lost entries in the file.
func (c approvalsWriteCmd) leftOut(ctx context.Context, env *environment, g *gateway, s gatewayItems, before, now lockfile.File) error {
	n := map[lockfile.State]int{}
	for _, i := range s.ofServers(c.Server) {
		if _, ok := now[i.ID]; !ok {
			n[i.Standing]++
		}
	}
	var counts []string
	for _, k := range []struct {
		standing lockfile.State
		words    string
	}{
		{lockfile.Waiting, "wait (--pending writes them, marked)"}, {lockfile.Blocked, "blocked"}, {lockfile.Disabled, "disabled"},
		{lockfile.Denied, "denied by a rule"}, {lockfile.Open, "callable without approval, as the config says"},
	} {
		if n[k.standing] > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n[k.standing], k.words))
		}
	}
	if len(counts) > 0 {
		fmt.Fprintln(env.stderr, "left out: "+strings.Join(counts, ", "))
	}
	servers, err := readServers(ctx, g)
	if err != nil {
		return nil //nolint:nilerr // the file is written, and the warnings are optional
	}
	lost := map[string]int{}
	for id := range before {
		if v, ok := servers[id.Server]; ok && v.Enabled && v.Outcome.Status != "available" {
			if _, kept := now[id]; !kept {
				lost[id.Server]++
			}
		}
	}
	for name, count := range lost {
		fmt.Fprintf(env.stderr, "warning: the server %s did not load, so the file lost %s of this server; write the file again when the server loads\n", inLine(name), entries(count))
	}
	return nil
}
