package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/portcullis-mcp/portcullis/pkg/decide"
	"github.com/portcullis-mcp/portcullis/pkg/text"
)

// A tryCmd is portcullis try.
type tryCmd struct {
	askFlags
	Query string `arg:"" help:"What the agent looks for, in its words."`

	As       string `placeholder:"AGENT" xor:"who" help:"Agent that is known, such as token:ci, or the ARN of a signer. Without it, and without --claims, one that is made up."`
	Claims   string `placeholder:"JSON" xor:"who" help:"Claims of a JWT: the agent that they make."`
	Servers  string `placeholder:"NAME,…" default:"*" help:"Of an agent that is made up: servers that it may see."`
	Tiers    string `placeholder:"TIER,…" default:"read,write,destructive" help:"Of an agent that is made up: tiers that it may call."`
	Toolsets string `placeholder:"NAME,…" help:"Of an agent that is made up: toolsets that bound it."`

	Path   string `placeholder:"PATH" help:"Address at which it asks: /mcp/readonly, /mcp/x/TOOLSET."`
	Locked bool   `help:"It asks for locked tools as well."`
	Limit  int    `default:"10" placeholder:"N" help:"Of tools in its answer, 1 to 50."`
}

// Help implements kong's longer help.
func (tryCmd) Help() string {
	return `Prints what an agent would find, and why: of each tool that matches the first check that it fails. Nothing is
called, and nothing counts as the agent's. Examples:

  portcullis try "create an issue" --as token:ci
  portcullis try "delete a branch" --tiers read -o json`
}

// Run prints what the agent finds.
func (c tryCmd) Run(ctx context.Context, env *environment) error {
	query := url.Values{"query": {c.Query}, "limit": {strconv.Itoa(c.Limit)}}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	set("agent", c.As)
	set("claims", c.Claims)
	if c.As == "" && c.Claims == "" {
		set("servers", c.Servers)
		set("tiers", c.Tiers)
		set("toolsets", c.Toolsets)
	}
	set("path", c.Path)
	if c.Locked {
		set("include_disabled", "true")
	}
	return call(ctx, c.askFlags, env, "try", "/admin/try", query, nil, showTrial)
}

// showTrial prints a trial for people.
func showTrial(w io.Writer, t decide.Trial) {
	tiers := make([]string, len(t.Agent.Tiers))
	for i, tier := range t.Agent.Tiers {
		tiers[i] = tier.String()
	}
	bound := ""
	if len(t.Agent.Toolsets) > 0 {
		bound = "; toolsets " + inLine(joined(t.Agent.Toolsets))
	}
	fmt.Fprintf(w, "as %s: servers %s; tiers %s%s; %s\n", inLine(t.Agent.ID), inLine(joined(t.Agent.Servers)), joined(tiers), bound, text.Count(t.Exists, "tool")+" there for it")
	if t.Refused != "" {
		fmt.Fprintf(w, "the request is refused: %s\n", text.Clip(text.Line(t.Refused), maxDetail))
		return
	}
	if t.Direct {
		fmt.Fprintln(w, "there is no search here: the tools themselves are listed")
	}
	found := 0
	for _, g := range t.Groups {
		found += g.Total
		if g.Total == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s: %d\n", inLine(headingOf(g.Name)), g.Total)
		rows := newTable(w, "TOOL", "TIER", "STATUS", "WHY")
		for _, x := range g.Tools {
			rows.row(x.ID, x.Tier.String(), x.Status, whyTried(g.Name, x))
		}
		rows.end()
		if more := g.Total - len(g.Tools); more > 0 {
			fmt.Fprintf(w, "and %d more\n", more)
		}
	}
	if found == 0 {
		fmt.Fprintln(w, "no tool matches")
	}
}

// headingOf says what a group of a trial is.
func headingOf(group string) string {
	switch group {
	case "callable":
		return "it can call"
	case "locked":
		return "it finds locked"
	case "hidden":
		return "it does not find"
	}
	return group
}

// whyTried returns why a tool is in its group: the first check that it does not pass.
func whyTried(group string, x decide.TrialTool) string {
	for _, c := range x.Checks {
		switch {
		case c.Passed == "yes" || group == "callable": // some of what it does not pass, another check makes good
		case c.Detail != "":
			return c.Text() + ": " + c.Detail
		default:
			return c.Text()
		}
	}
	return x.Note
}
