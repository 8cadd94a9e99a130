package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"

	"github.com/portcullis-mcp/portcullis/internal/cli/agenteval"
	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// A tryCmd is portcullis try.
type tryCmd struct {
	askFlags
	Query string `arg:"" optional:"" help:"Search words of the agent."`
	Eval  string `placeholder:"FILE" help:"Instead of one query: a JSON list of tasks with their searches and the tools that they need. Prints which tasks an agent can solve."`

	As       string `placeholder:"AGENT" xor:"who" help:"Known agent, such as token:ci, or the ARN of a signer. Without --as and --claims, the command invents an agent."`
	Claims   string `placeholder:"JSON" xor:"who" help:"Claims of a JWT, which identify the agent."`
	Servers  string `placeholder:"NAME,…" default:"*" help:"For an invented agent: servers that it may see."`
	Tiers    string `placeholder:"TIER,…" default:"read,write,destructive" help:"For an invented agent: tiers that it may call."`
	Toolsets string `placeholder:"NAME,…" help:"For an invented agent: toolsets that limit it."`

	Path   string `placeholder:"PATH" help:"Endpoint that the agent uses: /mcp/readonly, /mcp/x/TOOLSET."`
	Locked bool   `help:"Search for locked tools, too."`
	Limit  int    `default:"10" placeholder:"N" help:"Number of tools in the answer, 1 to 50."`
}

// Run prints the agent's results.
func (c tryCmd) Run(ctx context.Context, env *environment) error {
	switch {
	case c.Eval != "" && c.Query != "":
		return errors.New("try: give a query or --eval FILE, not both")
	case c.Eval != "":
		return c.evaluate(ctx, env)
	case c.Query == "":
		return errors.New("try: say what the agent looks for, or give --eval FILE")
	}
	g, err := c.view(ctx, env, "try")
	if err != nil {
		return err
	}
	defer g.close()
	t, err := client.Try.Do(ctx, g.Client, c.search(c.Query), nil)
	if err != nil {
		return err
	}
	return c.print(env.stdout, t, func(w io.Writer) { showExplanation(w, t.Value) })
}

// search returns the parameters of a trial of the query.
func (c tryCmd) search(query string) url.Values {
	q := map[string]string{
		"query": query, "agent": c.As, "claims": c.Claims,
		"path": c.Path, "limit": strconv.Itoa(c.Limit),
	}
	if c.As == "" && c.Claims == "" {
		q["servers"], q["tiers"], q["toolsets"] = c.Servers, c.Tiers, c.Toolsets
	}
	if c.Locked {
		q["include_disabled"] = "true"
	}
	return client.Values(q)
}

// evaluate prints which tasks of a file an agent can solve.
func (c tryCmd) evaluate(ctx context.Context, env *environment) error {
	f, err := os.Open(c.Eval)
	if err != nil {
		return fmt.Errorf("try: --eval: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was read only
	tasks, err := agenteval.ReadTasks(f)
	if err != nil {
		return fmt.Errorf("try: --eval %s: %w", c.Eval, err)
	}
	g, err := c.open(ctx, env, "try")
	if err != nil {
		return err
	}
	defer g.close()
	report, err := agenteval.Run(
		ctx,
		tasks,
		func(ctx context.Context, search string) (string, error) {
			t, err := client.Try.Do(ctx, g.Client, c.search(search), nil)
			if err != nil {
				return "", err
			}
			return answerOf(t.Value)
		},
	)
	if err != nil {
		return fmt.Errorf("try: %w", err)
	}
	return c.print(env.stdout, report, func(w io.Writer) { showReport(w, report) })
}

// answerOf returns the text of the answer of retrieve_tools.
func answerOf(t decide.Explanation) (string, error) {
	switch {
	case t.Refused != "":
		return "", fmt.Errorf(
			"the request is refused: %s",
			text.Clip(text.Line(t.Refused), client.MaxDetail),
		)
	case t.Direct:
		return "", errors.New("there is no search in direct mode: the tools themselves are listed")
	}
	var result struct {
		Content []struct{ Text string }
		IsError bool
	}
	if err := json.Unmarshal(t.Answer, &result); err != nil {
		return "", err
	}
	if len(result.Content) != 1 || result.IsError {
		return "", errors.New("the search failed; the gateway's log says why")
	}
	return result.Content[0].Text, nil
}

// showReport prints for people which tasks were solved.
func showReport(w io.Writer, r agenteval.Report) {
	rows := newTable(w, "TASK", "SOLVED", "SEARCHES", "BYTES", "LOCKED", "NOT FOUND")
	for _, x := range r.Results {
		solved := "no"
		if x.Solved {
			solved = "yes"
		}
		rows.row(
			inLine(x.Task),
			solved,
			strconv.Itoa(x.Searches),
			strconv.Itoa(x.Bytes),
			inLine(joined(x.Locked)),
			inLine(joined(x.Missing)),
		)
	}
	rows.end()
	fmt.Fprintf(
		w,
		"\nsolved: %d of %s; not solved because tools are locked: %d; %d searches, %d bytes of answers\n",
		r.Solved,
		text.Count(r.Tasks, "task"),
		r.Locked,
		r.Searches,
		r.Bytes,
	)
}

// showExplanation prints a trial for people.
func showExplanation(w io.Writer, t decide.Explanation) {
	tiers := make([]string, len(t.Agent.Tiers))
	for i, tier := range t.Agent.Tiers {
		tiers[i] = tier.String()
	}
	bound := ""
	if len(t.Agent.Toolsets) > 0 {
		bound = "; toolsets " + inLine(joined(t.Agent.Toolsets))
	}
	fmt.Fprintf(
		w,
		"as %s: servers %s; tiers %s%s; %s\n",
		inLine(t.Agent.ID),
		inLine(joined(t.Agent.Servers)),
		joined(tiers),
		bound,
		text.Count(t.Exists, "tool")+" exist for it",
	)
	if t.Refused != "" {
		fmt.Fprintf(
			w,
			"the request is refused: %s\n",
			text.Clip(text.Line(t.Refused), client.MaxDetail),
		)
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

// headingOf returns the title of a group of a trial.
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

// whyTried returns the first failed check of a tool that is not callable, or the tool's note.
func whyTried(group string, x decide.ExplainedTool) string {
	for _, c := range x.Checks {
		switch {
		// a callable tool may have a failed check, because another check can compensate for it
		case c.Passed == "yes" || group == "callable":
		case c.Detail != "":
			return c.Text() + ": " + c.Detail
		default:
			return c.Text()
		}
	}
	return x.Note
}
