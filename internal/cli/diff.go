package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
)

// A diffCmd is portcullis diff.
type diffCmd struct {
	askFlags
	Item itemName `arg:"" name:"name" help:"server:tool, server:prompt:name or server:resource:uri."`
	Raw  bool     `help:"Both definitions as indented JSON, as a unified diff: +++ is the current one."`
}

// Run prints the difference.
func (c diffCmd) Run(ctx context.Context, env *environment, g *gateway) error {
	now, err := g.item(ctx, env, c.Item.ID, "")
	if err != nil {
		return err
	}
	show := marker.words
	if c.Raw {
		show = marker.raw
	}
	err = c.print(env.stdout, now, func(w io.Writer) { show(marker{w: w, colour: env.colour}, now.Value) })
	if err == nil && !isApproved(now.Value) {
		err = errDrift
	}
	return err
}

// isApproved reports whether the current definition is the approved one.
func isApproved(t decide.Tool) bool {
	return t.Record != nil && t.Record.State == approval.Approved
}

// showHead prints what an item is, and its state.
func showHead(w io.Writer, t decide.Tool) {
	r := t.Record
	state := "no record of it yet: the next sync makes one"
	if r != nil {
		state = stateWords(t)
	}
	fmt.Fprintf(w, "%-9s %s, %s, %s\n", t.Kind, inLine(t.ID), t.Tier, t.Status)
	fmt.Fprintf(w, "state     %s\n", state)
	fmt.Fprintf(w, "hash      %s\n", inLine(string(t.Hash)))
	if r != nil && r.ApprovedHash != "" && r.ApprovedHash != t.Hash {
		fmt.Fprintf(w, "approved  %s\n", inLine(string(r.ApprovedHash)))
	}
	if t.Denial != nil {
		fmt.Fprintf(w, "denied    %s\n", denialOf(t.Denial))
	}
	if t.TakesTwo && !isApproved(t) {
		fmt.Fprintln(w, "two       approving it takes two people who sign in with the issuer, at /admin")
	}
}

// stateWords returns the state of an item's definition in words, and who decided last.
func stateWords(t decide.Tool) string {
	r := t.Record
	s := map[approval.State]string{
		approval.Approved: "approved", approval.Pending: "new, waits for approval", approval.Changed: "changed since it was approved",
		approval.Blocked: "blocked",
	}[r.State]
	if r.Disabled {
		s += ", disabled"
	}
	switch {
	case r.By == approval.Sync:
		s += "; nobody has decided about it: it was approved with the first list of its server, at " + atMinute(r.At)
	case r.By != "":
		s += fmt.Sprintf("; the last decision is by %s at %s", inLine(r.By), atMinute(r.At))
	}
	if note := text.Clip(text.Line(r.Note), 300); note != "" {
		s += `: "` + note + `"`
	}
	return s
}

// showFindings prints the findings in the current definition.
func showFindings(w io.Writer, t decide.Tool) {
	for _, f := range t.Findings {
		how := "found"
		if f.Severe {
			how = "severe"
		}
		where := ""
		if f.Where != "" {
			where = ", in " + inLine(f.Where)
		}
		fmt.Fprintf(w, "%-9s %s: it %s%s\n", how, inLine(f.Code), text.Clip(text.Line(f.Message), 500), where)
	}
}

// A marker prints definitions and marks their changes.
type marker struct {
	w      io.Writer
	colour bool
	brief  bool // shorten long parts that are unchanged or removed
}

// The escape sequences of a terminal's colours.
const (
	green = "\x1b[32m"
	red   = "\x1b[31m"
	plain = "\x1b[0m"
)

// words prints the difference in words.
func (m marker) words(t decide.Tool) {
	m.summary(t)
	if isApproved(t) {
		return
	}
	if t.Change != nil {
		m.items(t.Change)
	}
	if quotesMarks(t) {
		fmt.Fprintln(m.w, "\nThe texts themselves hold signs such as {+, which look like marks: "+
			"--raw prints the texts line by line.")
	}
	m.texts(t)
}

// summary prints what an item is, its changes, and the findings in it.
func (m marker) summary(t decide.Tool) {
	showHead(m.w, t)
	switch {
	case isApproved(t):
		fmt.Fprintln(m.w, "change    none: the current definition is the approved one")
	case t.Change != nil:
		fmt.Fprintf(m.w, "change    %s\n", text.Clip(text.Line(t.Change.Line), 500))
	case t.Record != nil && t.Record.ApprovedHash != "" && t.Record.ApprovedHash != t.Hash:
		fmt.Fprintln(m.w, "change    not known: the text of the approved definition is not kept any more. All of the new one follows")
	default:
		fmt.Fprintln(m.w, "change    all of it is new")
	}
	showFindings(m.w, t)
}

// items prints each difference.
func (m marker) items(c *decide.Change) {
	fmt.Fprintln(m.w)
	for _, i := range c.Items {
		line := fmt.Sprintf("  %s %s", i.Op, inLine(i.What))
		for _, s := range []string{i.Path, i.Text} {
			if s != "" {
				line += " " + text.Clip(text.Line(s), 300)
			}
		}
		if i.Risk != "" {
			line += " (" + inLine(i.Risk) + ")"
		}
		fmt.Fprintln(m.w, line)
	}
	if c.More > 0 {
		fmt.Fprintf(m.w, "  and %s more\n", text.Count(c.More, "difference"))
	}
}
