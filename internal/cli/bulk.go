package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A bulkConfirmation is the items of one bulk decision, and the items that it leaves out.
type bulkConfirmation struct {
	rows    []decide.Row
	out     []leftOut
	already int // items that are already in the requested state
	above   map[string]int
	maxTier string
}

// A leftOut is an item that a bulk decision leaves out.
type leftOut struct{ id, why string }

// many decides about many items.
func (d *decider) many(ctx context.Context, c decideCmd) error {
	if d.action == approval.ActionApprove && len(c.Items) == 0 {
		c.MaxTier = cmp.Or(c.MaxTier, tool.Read.String())
	}
	if d.action == approval.ActionApprove && c.Seen != "" {
		c.MaxTier = "" // the person has seen each item, so no tier is left out
	}
	rows, err := d.selectItems(ctx, c)
	if err != nil {
		return err
	}
	s, err := d.bulkConfirmationOf(ctx, rows, c)
	if err != nil {
		return err
	}
	s.show(d.env.stderr, d.action, d.sure)
	// stays 0 if flags chose the items: leaving out an item that nobody named is not an error
	refused := 0
	if !c.All {
		refused = len(s.out)
	}
	switch {
	case len(s.rows) == 0 && refused > 0:
		return d.leftOutError(refused)
	case len(s.rows) == 0:
		fmt.Fprintf(d.env.stderr, "there is nothing to %s\n", d.action)
		return nil
	}
	if err := d.confirmAll(s, len(c.Items) > 0); err != nil {
		return err
	}
	return d.decideAll(ctx, s.rows, refused)
}

// leftOutError returns the error for n items that the decision left out.
func (d *decider) leftOutError(n int) error {
	return fmt.Errorf("%s: nothing was decided about %s; the reasons are above", d.action, text.Count(n, "item"))
}

// selectItems returns the items of a command.
func (d *decider) selectItems(ctx context.Context, c decideCmd) (rows []decide.Row, err error) {
	if c.All {
		f := c.filter()
		f.For = d.action
		list, err := d.list(ctx, d.env, f, 0)
		if err != nil {
			return nil, err
		}
		return list.Tools, nil
	}
	if c.Seen != "" {
		return d.selectPinned(ctx, c.Seen)
	}
	for _, item := range c.Items {
		a, err := d.item(ctx, d.env, item.ID, d.action)
		if err != nil {
			return nil, fmt.Errorf("%w; nothing was decided", err)
		}
		t := a.Value
		if slices.ContainsFunc(rows, func(r decide.Row) bool { return r.ID == t.ID }) {
			continue
		}
		rows = append(rows, rowOf(t))
		if d.action == approval.ActionApprove && !d.isInState(rowOf(t)) {
			showReview(d.env.stderr, t)
			fmt.Fprintln(d.env.stderr)
		}
	}
	return rows, nil
}

// selectPinned returns the items of a file, with the file's hashes and revisions. It passes unknown
// items to the gateway unchanged. The gateway returns a reason why it refuses each of them.
func (d *decider) selectPinned(ctx context.Context, path string) (rows []decide.Row, err error) {
	seen, err := readPinned(path, d.env.stdin)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.action, err)
	}
	list, err := d.list(ctx, d.env, decide.Filter{For: d.action, Shown: decide.ShownSeen}, 0)
	if err != nil {
		return nil, err
	}
	known := map[string]decide.Row{}
	for _, r := range list.Tools {
		known[r.ID] = r
	}
	taken := map[pinnedItem]bool{}
	for _, s := range seen {
		if taken[s] {
			continue
		}
		taken[s] = true
		r := known[s.ID]
		if r.Hash != s.Hash { // the known state belongs to another definition
			r = decide.Row{ItemName: decide.ItemName{ID: s.ID}}
		}
		r.Hash, r.Rev = s.Hash, cmp.Or(s.Rev, r.Rev)
		rows = append(rows, r)
	}
	return rows, nil
}

// bulkConfirmationOf selects the items that can be decided together. On a terminal it prints each
// definition that needs an individual look before its approval.
func (d *decider) bulkConfirmationOf(
	ctx context.Context, rows []decide.Row, c decideCmd,
) (*bulkConfirmation, error) {
	s := &bulkConfirmation{above: map[string]int{}, maxTier: c.MaxTier}
	// there is no error: the flag accepts only the names of tiers
	most, _ := tool.ParseTier(cmp.Or(c.MaxTier, tool.Destructive.String()))
	for _, r := range rows {
		if o := r.Obstacle; r.Tier >= most && d.env.terminal && o != nil && o.Code == decide.NotShown {
			id, err := tool.ParseID(r.ID)
			if err != nil {
				return nil, fmt.Errorf("%s: the gateway's answer cannot be read: %w", d.action, err)
			}
			t, err := d.Item(ctx, id, d.action)
			if err != nil {
				return nil, err
			}
			showReview(d.env.stderr, t.Value)
			fmt.Fprintln(d.env.stderr)
			r = rowOf(t.Value)
		}
		if d.isInState(r) {
			s.already++
		} else if r.Tier < most {
			s.above[r.Tier.String()]++
		} else if why := d.whyNot(r.Obstacle); why != "" {
			s.out = append(s.out, leftOut{r.ID, why})
		} else {
			s.rows = append(s.rows, r)
		}
	}
	return s, nil
}

// isInState reports whether an item is already in the requested state.
func (d *decider) isInState(r decide.Row) bool {
	switch d.action {
	case approval.ActionDisable:
		return r.Disabled
	case approval.ActionEnable:
		return r.State != "" && !r.Disabled
	}
	o := r.Obstacle
	return o != nil && (o.Code == decide.AlreadyApproved || o.Code == decide.AlreadyBlocked)
}

// maxNamed is the maximum number of servers, and of left-out items, that are printed.
const maxNamed = 40

// show prints the items of the decision, and the items left out. If brief is set, it does
// not list the servers.
func (s *bulkConfirmation) show(w io.Writer, action string, brief bool) {
	servers := byServer(s.rows)
	names := slices.Sorted(maps.Keys(servers))
	if len(s.rows) > 0 {
		of := text.Count(len(names), "server")
		if len(names) == 1 {
			of = inLine(names[0])
		}
		fmt.Fprintf(w, "to %s: %s of %s: %s\n", action, kindsOrItems(s.rows), of, countsOf(action, s.rows))
	}
	if len(names) > 1 && !brief {
		for i, server := range names {
			if i == maxNamed {
				fmt.Fprintf(w, "  and %s more\n", text.Count(len(names)-i, "server"))
				break
			}
			fmt.Fprintf(w, "  %s: %s\n", inLine(server), countsOf(action, servers[server]))
		}
	}
	for i, o := range s.out {
		if i == maxNamed {
			fmt.Fprintf(w, "left out: %d more\n", len(s.out)-i)
			break
		}
		fmt.Fprintf(w, "left out: %s: %s\n", inLine(o.id), o.why)
	}
	for _, tier := range decide.Tiers() {
		if n := s.above[tier]; n > 0 {
			fmt.Fprintf(w, "left out: %d %s, above --max-tier %s\n", n, tier, s.maxTier)
		}
	}
	if s.already > 0 {
		fmt.Fprintf(w, "left out: %s %s already\n", text.Count(s.already, "item"), past(action))
	}
}

func kindsOrItems(rows []decide.Row) string {
	return cmp.Or(kindsOf(rows), text.Count(len(rows), "item"))
}

func byServer(rows []decide.Row) map[string][]decide.Row {
	out := map[string][]decide.Row{}
	for _, r := range rows {
		server := r.Server
		if server == "" {
			server, _, _ = strings.Cut(r.ID, ":")
		}
		out[server] = append(out[server], r)
	}
	return out
}

// countsOf counts items: "9 read, 3 write (10 new, 2 changed), 2 with findings".
func countsOf(action string, rows []decide.Row) string {
	tiers, states, found, strange := map[string]int{}, map[string]int{}, 0, 0
	for _, r := range rows {
		if r.State == "" {
			strange++
			continue
		}
		tiers[r.Tier.String()]++
		if states[r.State]++; r.Findings > 0 {
			found++
		}
	}
	tierNames := decide.Tiers()
	slices.Reverse(tierNames)
	var parts []string
	if len(tiers) > 0 {
		parts = append(parts, countEach(tiers, tierNames)+" ("+countEach(states, decide.States())+")")
	}
	if found > 0 && action == approval.ActionApprove {
		parts = append(parts, fmt.Sprintf("%d with findings", found))
	}
	if strange > 0 {
		parts = append(parts, fmt.Sprintf("%d with another hash, which the gateway refuses", strange))
	}
	return strings.Join(parts, ", ")
}

// countEach returns the count of each name: "9 read, 3 write".
func countEach(counts map[string]int, names []string) string {
	var parts []string
	for _, name := range names {
		if n := counts[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, name))
		}
	}
	return strings.Join(parts, ", ")
}

// confirmAll asks whether to decide about all printed items. If named is set, the person named each
// item by its id, so a decision that locks items needs no question.
func (d *decider) confirmAll(s *bulkConfirmation, named bool) error {
	if d.sure || named && d.action != approval.ActionApprove && d.action != approval.ActionEnable {
		return nil
	}
	return d.confirm(fmt.Sprintf("%s %s?", strings.ToUpper(d.action[:1])+d.action[1:], kindsOrItems(s.rows)),
		"list the items that you have seen (portcullis tools --hashes > FILE), and repeat this command with --seen FILE --yes. Nothing was decided")
}
