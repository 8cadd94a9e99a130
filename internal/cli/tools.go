package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// A toolsCmd is portcullis tools.
type toolsCmd struct {
	askFlags
	choice
	Words  []string `arg:"" optional:"" help:"Search words, as in -q."`
	Sort   string   `enum:"${sorts}," default:"" placeholder:"ORDER" help:"One of ${sorts_list}; risk puts the riskiest item first; newest and oldest use the time of the last change. Without it id, or risk for items that wait."`
	Limit  int      `placeholder:"N" help:"Maximum number of items; without it, all."`
	Hashes bool     `help:"Print a line for each item, its name and the hash of its definition, as input for approve --seen."`
}

// Validate implements kong's check of flags.
func (c toolsCmd) Validate() error {
	switch {
	case c.Limit < 0:
		return fmt.Errorf("--limit is %d, and takes a number from 1 on", c.Limit)
	case c.Hashes && c.json():
		return errHashes
	}
	return c.gatewayFlags.Validate()
}

var errHashes = errors.New("--hashes prints lines: leave out -o json, which has the hashes too")

// Run prints the list.
func (c toolsCmd) Run(ctx context.Context, env *environment, g *gateway) error {
	f := c.filter()
	f.Q, f.Sort = strings.TrimSpace(f.Q+" "+strings.Join(c.Words, " ")), c.Sort
	list, err := g.list(ctx, env, f, c.Limit)
	if err != nil {
		return err
	}
	switch {
	case c.json():
		return printJSON(env.stdout, list)
	case list.Total == 0:
		return g.explainNone(ctx, env)
	case c.Hashes:
		return printWhole(env.stdout, func(w io.Writer) { showHashes(w, list.Tools) })
	}
	if err := printWhole(env.stdout, func(w io.Writer) { showItems(w, list.Tools) }); err != nil {
		return err
	}
	sumItems(env.stderr, list, f)
	return nil
}

// showHashes prints lines for readPinned. It skips a name that readPinned would misread.
func showHashes(w io.Writer, rows []decide.Row) {
	for _, r := range rows {
		if seen := (pinnedItem{ID: r.ID, Hash: r.Hash}); seen.writable() {
			fmt.Fprintf(w, "%s %s\n", r.ID, r.Hash)
		}
	}
}

// showItems prints the rows for people.
func showItems(w io.Writer, rows []decide.Row) {
	t := newTable(w, "NAME", "STATUS", "STATE", "TIER", "FOUND", "WHAT")
	for _, r := range rows {
		t.row(r.ID, r.Status, r.State, r.Tier.String(), foundIn(r), text.Clip(text.Line(whatOf(r)), 80))
	}
	t.end()
}

// foundIn returns the findings in a definition in few words.
func foundIn(r decide.Row) string {
	switch {
	case len(r.Severe) > 0:
		return "severe: " + strings.Join(r.Severe, ", ")
	case r.Findings > 0:
		return strconv.Itoa(r.Findings)
	}
	return "-"
}

// whatOf returns what changed in a definition, or its summary.
func whatOf(r decide.Row) string {
	what := cmp.Or(r.Summary, r.Title)
	if r.State == decide.StateChanged {
		what = cmp.Or(r.Change, what)
	}
	switch {
	case r.Lost:
		return "the store lost its record: decide with portcullis restore or accept. " + what
	case r.Proposed != "":
		return "approved by " + r.Proposed + ", needs a second person. " + what
	case r.TakesTwo && (r.State == decide.StateNew || r.State == decide.StateChanged):
		return "takes two people. " + what
	}
	return what
}

// If a list has more than manyRows rows, the output suggests filters, with at most maxValues values
// of each flag.
const (
	manyRows  = 20
	maxValues = 6
)

// sumItems prints the number of items, and filters that would leave fewer.
func sumItems(w io.Writer, l *client.List, f decide.Filter) {
	if len(l.Tools) < l.Total {
		fmt.Fprintf(w, "%d of %s; --limit ends the list\n", len(l.Tools), text.Count(l.Total, "item"))
	} else {
		fmt.Fprintln(w, kindsOf(l.Tools))
	}
	for _, line := range upgradeLines(l.Upgrades) {
		fmt.Fprintln(w, sameServer+line)
	}
	if len(l.Tools) <= manyRows {
		return
	}
	chosen := f.Values()
	for _, flag := range []struct {
		name   string
		values []decide.Facet
	}{
		{"status", l.Facets.Status}, {"state", l.Facets.State}, {"server", l.Facets.Server}, {"tier", l.Facets.Tier}, {"kind", l.Facets.Kind}, {"finding", l.Facets.Finding},
	} {
		if chosen.Has(flag.name) || len(flag.values) < 2 {
			continue
		}
		values := slices.Clone(flag.values)
		slices.SortStableFunc(values, func(a, b decide.Facet) int { return cmp.Compare(b.Tools, a.Tools) })
		var counts []string
		for _, v := range values {
			counts = append(counts, fmt.Sprintf("%s %d", inLine(v.Value), v.Tools))
		}
		fmt.Fprintf(w, "  fewer with %-10s %s\n", "--"+flag.name, text.List(counts, maxValues))
	}
}

// kindsOf counts rows by kind: "40 tools, 2 prompts".
func kindsOf(rows []decide.Row) string {
	counts := map[string]int{}
	for _, r := range rows {
		counts[r.Kind]++
	}
	var parts []string
	for _, kind := range decide.Kinds() {
		if n := counts[kind]; n > 0 {
			parts = append(parts, text.Count(n, kind))
		}
	}
	return strings.Join(parts, ", ")
}

// explainNone prints why the list is empty, and what to do.
func (g *gateway) explainNone(ctx context.Context, env *environment) error {
	all, err := g.list(ctx, env, decide.Filter{}, 1)
	if err != nil {
		return err
	}
	if all.Total > 0 {
		fmt.Fprintf(env.stderr, "nothing matches; without flags %s\n", has(all.Total))
		return nil
	}
	why, err := g.emptyCatalog(ctx)
	if err == nil {
		fmt.Fprintln(env.stderr, why)
	}
	return err
}

func has(n int) string {
	if n == 1 {
		return "there is 1 item"
	}
	return fmt.Sprintf("there are %d items", n)
}

// noSync is the code of the reason that the next sync removes: there is no catalog yet.
const noSync = "catalog_missing"

// emptyCatalog returns why there are no tools, and what to do. It returns an error if a sync would
// not help.
func (g *gateway) emptyCatalog(ctx context.Context) (why string, err error) {
	a, err := client.Config.Do(ctx, g.Client, nil, nil)
	if err != nil {
		return "", err
	}
	cfg := a.Value
	for _, r := range cfg.Reasons {
		if r.Code == noSync {
			return "no tools are known, since no sync has loaded any: run portcullis sync, or portcullis serve, which syncs every minute", nil
		}
	}
	if len(cfg.Reasons) > 0 {
		return "", fmt.Errorf("%s: no tools are known: %s", g.Command, reasonOf(cfg))
	}
	servers, err := g.Servers(ctx)
	if err != nil {
		return "", err
	}
	if len(servers) == 0 {
		return "no tools are known, since mcp_config.json has no servers: add servers, and the next sync loads them", nil
	}
	return fmt.Sprintf("no tools are known: none is listed by %s; portcullis doctor says why", text.Count(len(servers), "server")), nil
}

// reasonOf returns why a gateway has no tools, the lines of the config with faults, and what to do.
func reasonOf(cfg decide.Config) string {
	r := cfg.Reasons[0]
	s := text.Clip(text.Line(r.Message), client.MaxDetail)
	for _, f := range cfg.State.Config.Faults {
		s += fmt.Sprintf(" Line %d: %s.", f.Line, text.Clip(text.Line(f.Message), client.MaxDetail))
	}
	return strings.TrimSuffix(s+" "+text.Clip(text.Line(r.Action), client.MaxDetail), ".")
}
