package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// followEvery is how often a command with -f asks for more.
const followEvery = time.Second

// follow calls read until it fails or somebody interrupts the command.
func (env *environment) follow(ctx context.Context, read func() error) error {
	for {
		err := read()
		if ctx.Err() != nil {
			return nil //nolint:nilerr // an interrupt is the usual end
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(cmp.Or(env.look, followEvery)):
		}
	}
}

// needsRunning returns an error if no gateway runs on the folder: a process that opened the folder
// for one command has no servers.
func (g *gateway) needsRunning(command string, f placeFlags) error {
	if g.IsEmbedded() {
		return fmt.Errorf("%s: no gateway runs on %q, so no server runs either: start it with "+
			"portcullis serve%s, or name another with --url", command, f.folder(), f.gatewayArgs())
	}
	return nil
}

// A logsServerCmd is portcullis servers logs.
type logsServerCmd struct {
	askFlags
	Name   string `arg:"" name:"server" help:"Name of the server in the config."`
	Follow bool   `short:"f" help:"Continue with new messages until Ctrl-C."`
}

// Run prints the messages, the oldest first.
func (c logsServerCmd) Run(ctx context.Context, env *environment, g *gateway) error {
	if err := g.needsRunning("servers logs", c.placeFlags); err != nil {
		return err
	}
	after := ""
	read := func() error {
		a, err := client.Messages.Do(
			ctx,
			g.Client,
			client.Values(map[string]string{"after": after}),
			nil,
			url.PathEscape(c.Name),
		)
		if err != nil {
			return err
		}
		all := a.Value.Messages
		if len(all) > 0 {
			after = all[len(all)-1].Number
		}
		return c.show(env, a)
	}
	if c.Follow {
		return env.follow(ctx, read)
	}
	return read()
}

// show prints messages. With -f, JSON is a line for each message.
func (c logsServerCmd) show(env *environment, a client.Answer[decide.ServerMessages]) error {
	all := a.Value.Messages
	switch {
	case c.json() && !c.Follow:
		return printJSON(env.stdout, a)
	case len(all) == 0 && !c.Follow:
		_, err := fmt.Fprintln(
			env.stderr,
			"the server has sent no message since the gateway was started",
		)
		return err
	}
	return printWhole(env.stdout, func(w io.Writer) {
		for _, m := range all {
			if c.json() {
				line, _ := json.Marshal(m) // cannot fail: it has only texts, a time and a number
				fmt.Fprintln(w, escaped(string(line)))
				continue
			}
			times := ""
			if m.Times > 1 {
				times = fmt.Sprintf(" (%d times)", m.Times)
			}
			fmt.Fprintf(w, "%s  %-7s  %s%s\n", m.At.UTC().Format("2006-01-02 15:04:05 UTC"),
				inLine(cmp.Or(m.Level, m.Kind)), text.Clip(text.Line(m.Text), 600), times)
		}
	})
}

// A restartServerCmd is portcullis servers restart.
type restartServerCmd struct {
	askFlags
	Name string `arg:"" name:"server" help:"Name of the server in the config."`
}

// Run restarts the server.
func (c restartServerCmd) Run(ctx context.Context, env *environment) error {
	g, err := c.view(ctx, env, "servers restart")
	if err != nil {
		return err
	}
	defer g.close()
	if err := g.needsRunning("servers restart", c.placeFlags); err != nil {
		return err
	}
	done, err := client.Restart.Do(ctx, g.Client, nil, client.Empty{}, url.PathEscape(c.Name))
	if err != nil {
		return err
	}
	err = c.print(env.stdout, done, func(w io.Writer) { showRestart(w, c.Name, done.Value) })
	if o := done.Value.Outcome; err == nil && o != nil && o.Status != string(outcome.Available) {
		err = fmt.Errorf("servers restart: %s was restarted, but did not load", inLine(c.Name))
	}
	return err
}

// showRestart prints the result of a restart.
func showRestart(w io.Writer, name string, r decide.RestartedServer) {
	fmt.Fprintf(w, "restarted %s", inLine(name))
	if r.Programs > 0 {
		fmt.Fprintf(w, ": ended %s", text.Count(r.Programs, "program"))
	}
	fmt.Fprintln(w)
	switch {
	case r.Outcome == nil:
		fmt.Fprintln(w, "it was not loaded: it is disabled, or its load is still due")
	case r.Outcome.Status == string(outcome.Available):
		fmt.Fprintf(w, "it has %s\n", text.Count(r.Tools, "tool"))
	default:
		fmt.Fprintf(
			w,
			"%s: %s\n",
			inLine(r.Outcome.Status),
			text.Clip(text.Line(r.Outcome.Message), 500),
		)
	}
}
