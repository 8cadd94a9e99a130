package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// A callCmd is portcullis call.
type callCmd struct {
	askFlags
	Tool          string `arg:"" name:"tool" help:"server:tool."`
	Args          string `placeholder:"JSON" help:"Arguments, a JSON object. - reads them from standard input."`
	Agent         string `placeholder:"ID" help:"Agent whose servers, tiers and toolsets the call has, such as token:ci. Without it, every server and tier."`
	AllowCommands bool   `help:"If no gateway runs on the folder: start the server if it has a command. It runs with your user's rights."`
}

// errCallFailed ends a call whose result says that it failed.
var errCallFailed = errors.New("call: the tool was not called, or it failed: see above")

// maxArguments is the maximum size of arguments from standard input.
const maxArguments = 1 << 20

// Run calls the tool.
func (c callCmd) Run(ctx context.Context, env *environment) error {
	q := decide.CallQuery{Tool: c.Tool, Arguments: json.RawMessage(c.Args), Agent: c.Agent}
	if c.Args == "-" {
		data, err := io.ReadAll(io.LimitReader(env.stdin, maxArguments))
		if err != nil {
			return fmt.Errorf("call: standard input: %w; nothing was called", err)
		}
		q.Arguments = data
	}
	var object map[string]json.RawMessage
	if len(q.Arguments) > 0 && json.Unmarshal(q.Arguments, &object) != nil {
		return errors.New(
			"call: --args is no JSON object, such as '{\"path\": \"a.txt\"}'; nothing was called",
		)
	}
	g, err := c.openTo(ctx, env, "call", folder.Options{Commands: c.AllowCommands})
	if err != nil {
		return err
	}
	defer g.close()
	a, err := client.Call.Do(ctx, g.Client, nil, q)
	if err != nil {
		return err
	}
	var result callResult
	if err := json.Unmarshal(a.Value.Result, &result); err != nil {
		return fmt.Errorf("call: the tool was called, and its result cannot be read: %w", err)
	}
	show := result.show
	if l := a.Value.Lock(); l != nil {
		show = callLock{*l}.show
	}
	if err := c.print(env.stdout, a, show); err != nil {
		return err
	}
	if result.IsError {
		return errCallFailed
	}
	return nil
}

// A callResult is the result of a call, as far as a terminal can show it.
type callResult struct {
	Content []struct {
		Type, Text, MIMEType, URI string
		Data                      string
		Resource                  struct{ URI, Text string }
	}
	StructuredContent json.RawMessage
	IsError           bool
}

// A callLock says why the gateway refused a call. The text of such a result is for agents.
type callLock struct{ decide.CallLock }

func (l callLock) show(w io.Writer) {
	fmt.Fprintf(w, "%s is locked, and nothing was called: %s\n", inLine(l.Name), inLine(l.Status))
	for _, line := range []string{l.Remediation, l.Note} {
		if line != "" {
			fmt.Fprintln(w, text.Clip(text.Line(line), 500))
		}
	}
	if id := l.Confirm.Request; id != "" {
		fmt.Fprintf(
			w,
			"portcullis requests confirm %s confirms the call; then call the tool again "+
				"with the same arguments\n",
			shellWord(inLine(id)),
		)
	}
}

// show prints the result for people.
func (r callResult) show(w io.Writer) {
	shown := 0
	for _, part := range r.Content {
		switch said := part.Text + part.Resource.Text; {
		case said != "":
			fmt.Fprintln(w, strings.TrimRight(printable(said), "\n"))
		case part.Data != "":
			fmt.Fprintf(w, "[%s, %s, %s of base64]\n", inLine(part.Type), inLine(part.MIMEType),
				text.Count(len(part.Data), "byte"))
		default:
			fmt.Fprintf(w, "[%s %s]\n", inLine(part.Type), inLine(part.URI+part.Resource.URI))
		}
		shown++
	}
	if shown == 0 && r.StructuredContent != nil {
		fmt.Fprintln(w, printable(string(r.StructuredContent)))
	}
}

// printable returns a foreign text of several lines without characters that control a terminal.
func printable(s string) string {
	return escaped(strings.NewReplacer("\r\n", "\n", "\t", "    ").Replace(s))
}
