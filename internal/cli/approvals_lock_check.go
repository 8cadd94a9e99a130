package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/lockfile"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// summaryVariable is the environment variable with the path of a Markdown file. GitHub shows this
// file on the page of a workflow run.
const summaryVariable = "GITHUB_STEP_SUMMARY"

// An approvalsCheckCmd is portcullis approvals check.
type approvalsCheckCmd struct {
	placeFlags
	lockArg
	Markdown string   `placeholder:"FILE" help:"Write the difference as Markdown, for a pull request; - prints it instead of the table."`
	Summary  bool     `help:"Also append that Markdown to the file that GITHUB_STEP_SUMMARY names."`
	Server   []string `placeholder:"NAME" help:"Only items of this server; repeatable."`
	outputFlag
}

// Validate implements kong's check of flags.
func (c approvalsCheckCmd) Validate() error {
	if c.Markdown == "-" && c.json() {
		return errors.New("--markdown - and -o json both print to standard output: give " +
			"--markdown a file")
	}
	return nil
}

// Run compares the file with the gateway.
func (c approvalsCheckCmd) Run(ctx context.Context, env *environment) error {
	const command = "approvals check"
	f, err := c.mustRead(command)
	if err != nil {
		return err
	}
	summary := env.getenv(summaryVariable)
	if c.Summary && summary == "" {
		return fmt.Errorf("%s: --summary writes to the file that %s names, but this variable is "+
			"not set: use --summary only in a GitHub workflow", command, summaryVariable)
	}
	g, err := gatewayFlags{c.placeFlags, osUser()}.view(ctx, env, command)
	if err != nil {
		return err
	}
	defer g.close()
	s, err := readItems(ctx, g)
	if err != nil {
		return err
	}
	if err := s.checkServers(command, c.Server, f); err != nil {
		return err
	}
	drifts := lockfile.Compare(f.OfServers(c.Server...), s.ofServers(c.Server))
	if c.Markdown != "" || c.Summary {
		md, err := c.markdown(ctx, g, s, drifts)
		if err != nil {
			return err
		}
		if err := c.hand(env, md, summary); err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
	}
	if err := c.print(env, f, drifts); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	if slices.ContainsFunc(drifts, lockfile.Drift.IsDrift) {
		return errDrift
	}
	return nil
}

// hand writes the Markdown to the file or to standard output, as --markdown says. With --summary it
// also appends the Markdown to the file at the path summary.
func (c approvalsCheckCmd) hand(env *environment, md, summary string) error {
	if c.Summary {
		if err := writeInto(summary, []byte("\n"+md), os.O_APPEND|os.O_CREATE); err != nil {
			return fmt.Errorf("the summary was not written: %w", err)
		}
	}
	switch c.Markdown {
	case "":
		return nil
	case "-":
		_, err := io.WriteString(env.stdout, md)
		return err
	}
	if err := replaceFile(c.Markdown, []byte(md), 0o644); err != nil {
		return fmt.Errorf("--markdown: %s was not written: %w", c.Markdown, bare(err))
	}
	return nil
}

// A driftLine is an item in the JSON output.
type driftLine struct {
	ID       string         `json:"id"`
	What     lockfile.What  `json:"what"`
	Drift    bool           `json:"drift"`
	Standing lockfile.State `json:"standing,omitempty"`
	Listed   tool.Hash      `json:"listed,omitempty"`
	Current  tool.Hash      `json:"current,omitempty"`
	Summary  string         `json:"summary,omitempty"`
}

// print prints the difference.
func (c approvalsCheckCmd) print(env *environment, f lockfile.File, drifts []lockfile.Drift) error {
	if c.json() {
		out := struct {
			File  string      `json:"file"`
			Drift bool        `json:"drift"`
			Items []driftLine `json:"items"`
		}{c.File, false, []driftLine{}}
		for _, d := range drifts {
			out.Drift = out.Drift || d.IsDrift()
			out.Items = append(out.Items, driftLine{d.ID.String(), d.What, d.IsDrift(), d.Standing, d.Listed, d.Current, d.Summary})
		}
		return printJSON(env.stdout, out)
	}
	if len(drifts) > 0 && c.Markdown != "-" {
		err := printWhole(env.stdout, func(w io.Writer) {
			t := newTable(w, "WHAT", "ITEM", "FILE", "GATEWAY", "STANDS")
			for _, d := range drifts {
				t.row(strings.ReplaceAll(string(d.What), "_", " "), d.ID.String(), text.Clip(string(d.Listed), 12), text.Clip(string(d.Current), 12), string(d.Standing))
			}
			t.end()
		})
		if err != nil {
			return err
		}
	}
	if len(drifts) == 0 {
		fmt.Fprintf(env.stderr, "%s approves what the gateway has approved (%s), and nothing waits\n", c.File, entries(len(f)))
		return nil
	}
	fmt.Fprintf(env.stderr, "%s and the gateway %s\n", c.File, c.verdict(drifts))
	return nil
}

// verdict returns how many items differ, and what to do.
func (c approvalsCheckCmd) verdict(drifts []lockfile.Drift) string {
	counts := lockfile.Counts(drifts)
	if !slices.ContainsFunc(drifts, lockfile.Drift.IsDrift) {
		return "agree: " + counts + "\nportcullis approvals apply approves the pending " +
			"definitions, once the file is merged"
	}
	return "differ: " + counts + "\nportcullis approvals write --pending updates the file, " +
		"portcullis approvals apply approves its definitions; " + c.see() + " ID shows one item"
}

// see returns the command that shows one item of the gateway.
func (f placeFlags) see() string {
	switch {
	case f.URL != "":
		return "portcullis diff --url " + inLine(f.URL)
	case f.Dir != "":
		return "portcullis diff --dir " + connect.Shell(inLine(f.Dir))
	}
	return "portcullis diff"
}

// markdown returns the difference for a pull request.
func (c approvalsCheckCmd) markdown(ctx context.Context, g *gateway, s gatewayItems, drifts []lockfile.Drift) (string, error) {
	var failed error
	var servers map[string]decide.Server
	detail := func(id tool.ID) (out lockfile.Detail) {
		if failed != nil {
			return out
		}
		row, listed := s.rows[id]
		if !listed {
			if servers == nil {
				if servers, failed = readServers(ctx, g); failed != nil {
					return out
				}
			}
			return lockfile.Detail{Reason: whyGone(id, servers)}
		}
		var t client.Answer[decide.Tool]
		if t, failed = g.Item(ctx, id, ""); failed != nil {
			return out
		}
		return detailOf(t.Value, row)
	}
	md := lockfile.Markdown(lockfile.Report{File: c.File, Gateway: c.URL, Drifts: drifts, Detail: detail, See: c.see()})
	return md, failed
}

// detailOf returns the details of an item for a report. It ignores a definition that is newer than
// the list.
func detailOf(t decide.Tool, row decide.Row) lockfile.Detail {
	out := lockfile.Detail{Two: t.TakesTwo}
	if t.Hash != row.Hash {
		out.Reason = "The definition changed while this report was written: run the check again."
		return out
	}
	out.Now = t.Definition
	if r := t.Record; r != nil {
		if len(t.Approved) > 0 && r.ApprovedHash != t.Hash {
			out.Before, out.Known = t.Approved, r.ApprovedHash
		}
		if r.By != "" && r.By != approval.Sync {
			out.Decided = r.By + ", " + atMinute(r.At)
		}
	}
	for _, f := range t.Findings {
		message := f.Message
		if f.Where != "" {
			message += ", in " + f.Where
		}
		out.Findings = append(out.Findings, lockfile.Finding{Code: f.Code, Message: message, Severe: f.Severe})
	}
	return out
}
