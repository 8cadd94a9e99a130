package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// A syncCmd is portcullis sync.
type syncCmd struct {
	askFlags
	AllowCommands bool     `help:"Where no gateway runs on the folder: start the servers of the config that have a command. They run with your user's rights."`
	Server        []string `placeholder:"NAME" help:"Print only these servers, and use only them for the exit code. The command still asks all servers."`
}

// Run syncs.
func (c syncCmd) Run(ctx context.Context, env *environment) error {
	bar := newProgress(env.stderr, env.terminal, "syncing", "server")
	defer bar.end()
	g, err := c.openTo(ctx, env, "sync", folder.Options{Commands: c.AllowCommands, Progress: bar.sync})
	if err != nil {
		return err
	}
	defer g.close()
	if !g.IsEmbedded() {
		if c.AllowCommands {
			fmt.Fprintln(env.stderr, "--allow-commands does nothing here: the running gateway "+
				"has its own setting")
		}
		bar.begin(0)
	}
	a, err := client.Sync.Do(ctx, g.Client, nil, client.Empty{})
	bar.end()
	if err != nil {
		return err
	}
	report := a.Value
	for _, name := range c.Server {
		if !report.Pending && !slices.ContainsFunc(report.Servers, func(s decide.SyncedServer) bool { return s.Name == name }) {
			return fmt.Errorf("sync: no server is called %s; the sync asked all others",
				text.Quote(name, 80))
		}
	}
	if err := c.print(env.stdout, a, func(w io.Writer) { c.show(w, report) }); err != nil {
		return err
	}
	return c.verdict(report)
}

// verdict returns the error of a sync.
func (c syncCmd) verdict(report decide.SyncReport) error {
	var failed []string
	for _, s := range report.Servers {
		if c.prints(s) && s.Enabled && s.Outcome.Status != string(outcome.Available) {
			failed = append(failed, inLine(s.Name))
		}
	}
	switch {
	case len(failed) > 0:
		return fmt.Errorf("sync: %s did not answer: %s", text.Count(len(failed), "server"), text.List(failed, 20))
	case len(report.Faults) > 0:
		return errors.New("sync: the stored config is not in use, but the last good one is; " +
			"portcullis check says what is wrong")
	}
	return nil
}

// prints reports whether the command prints a server.
func (c syncCmd) prints(s decide.SyncedServer) bool {
	return len(c.Server) == 0 || slices.Contains(c.Server, s.Name)
}

// show prints the result of a sync: first the servers that answered, and last the failed ones,
// where people look.
func (c syncCmd) show(w io.Writer, r decide.SyncReport) {
	if r.Pending {
		fmt.Fprintln(w, "the sync was started elsewhere and continues; portcullis status says "+
			"when the newest one succeeded")
		return
	}
	for _, f := range r.Faults {
		fmt.Fprintf(w, "the stored config is not in use: %s\n", inLine(f.String()))
	}
	place := func(s decide.SyncedServer) int {
		if !s.Enabled {
			return 0
		}
		return 1 + slices.Index([]string{string(outcome.Available), string(outcome.Transient), string(outcome.Denied), string(outcome.Permanent)}, s.Outcome.Status)
	}
	slices.SortStableFunc(r.Servers, func(a, b decide.SyncedServer) int { return cmp.Compare(place(a), place(b)) })
	t, n := newTable(w, "SERVER", "OUTCOME", "TOOLS", "ITEMS", "NEW", "CHANGED", "GONE", "NOTE"), map[string]int{}
	all, fresh, changed, gone := 0, 0, 0, 0
	for _, s := range r.Servers {
		if !c.prints(s) {
			continue
		}
		status, note := s.Outcome.Status, s.Outcome.Message
		if !s.Enabled {
			status, note = "off", ""
		} else if s.Kept && note == "" {
			note = "its last known tools stay"
		}
		n[status]++
		all, fresh, changed, gone = all+s.Tools+s.Items, fresh+s.New+s.NewItems, changed+s.Changed+s.ChangedItems, gone+s.Gone+s.GoneItems
		t.row(s.Name, status, strconv.Itoa(s.Tools), strconv.Itoa(s.Items), strconv.Itoa(s.New+s.NewItems), strconv.Itoa(s.Changed+s.ChangedItems), strconv.Itoa(s.Gone+s.GoneItems), note)
	}
	t.end()
	fmt.Fprintf(w, "servers: %s; tools, prompts and resources: %d, of them %d new, %d changed, and %d gone\n",
		counted(n, string(outcome.Available), string(outcome.Transient), string(outcome.Denied), string(outcome.Permanent), "unknown", "off"), all, fresh, changed, gone)
	if fresh+changed > 0 {
		fmt.Fprintln(w, "to see what waits for approval: portcullis tools --status pending_approval")
	}
	if r.Superseded {
		fmt.Fprintln(w, "a sync that began later ended first: its catalog is in use")
	}
}
