package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	stops "github.com/portcullis-mcp/portcullis/pkg/rules/stop"
)

// A stopCmd is portcullis stop.
type stopCmd struct {
	Now  doStopCmd   `cmd:"" default:"withargs" help:"Stop a server, an agent or everything."`
	Undo undoStopCmd `cmd:"" help:"Undo stops that people made."`
}

// Words and prefixes that an argument can have instead of a server's name.
const (
	everything = "everything"
	every      = "every"
	anAgent    = "agent:"
	aServer    = "server:"
)

// A stopTarget is an argument that names the target of a stop.
type stopTarget struct {
	stops.Target
	Every bool `json:"every,omitempty"` // all stops that people made
}

// A doStopCmd is portcullis stop, without undo.
type doStopCmd struct {
	askFlags
	Targets []string `arg:"" optional:"" name:"what" help:"NAME of a server, agent:ID, or everything. Use server:NAME for a server with the name everything, every, undo or now."`
	Reason  string   `placeholder:"TEXT" help:"Reason, in one line; agents see it."`
}

// Validate implements kong's check of flags.
func (c doStopCmd) Validate() error {
	switch {
	case len(c.Targets) == 0 && c.Reason != "":
		return errors.New("name what to stop: a server, agent:ID, or everything")
	case len(c.Targets) > 0:
		if err := stops.CheckReason(c.Reason); err != nil {
			return fmt.Errorf("--reason: %w", err)
		}
	}
	return c.gatewayFlags.Validate()
}

// Run stops the targets. Without targets, it prints the stops.
func (c doStopCmd) Run(ctx context.Context, env *environment) error {
	targets, err := targetsOf(c.Targets, false)
	if err != nil {
		return fmt.Errorf("stop: %w; nothing was stopped", err)
	}
	open := c.open
	if len(targets) == 0 {
		open = c.view
	}
	g, err := open(ctx, env, "stop")
	if err != nil {
		return err
	}
	defer g.close()
	if len(targets) == 0 {
		s, err := client.Stops.Do(ctx, g.Client, nil, nil)
		if err != nil {
			return err
		}
		return c.print(env.stdout, s, func(w io.Writer) { showStops(w, env.stderr, s.Value) })
	}
	return g.eachStop(c.askFlags, env, targets, showStopped, func(t stopTarget) (client.Answer[decide.Stopped], error) {
		return client.Stop.Do(ctx, g.Client, nil, stops.Stop{Target: t.Target, Reason: c.Reason})
	})
}

// An undoStopCmd is portcullis stop undo.
type undoStopCmd struct {
	askFlags
	Targets []string `arg:"" name:"what" help:"The target of the stop: NAME of a server, agent:ID, everything; or every, for all stops that people made."`
}

// Run undoes stops.
func (c undoStopCmd) Run(ctx context.Context, env *environment) error {
	targets, err := targetsOf(c.Targets, true)
	if err != nil {
		return fmt.Errorf("stop undo: %w; nothing was undone", err)
	}
	g, err := c.open(ctx, env, "stop undo")
	if err != nil {
		return err
	}
	defer g.close()
	return g.eachStop(c.askFlags, env, targets, showUndone, func(t stopTarget) (client.Answer[decide.Stopped], error) {
		return client.UndoStop.Do(ctx, g.Client, nil, t)
	})
}

// targetsOf parses all names before the first change, so that a wrong name changes nothing.
func targetsOf(names []string, undo bool) (out []stopTarget, err error) {
	for _, name := range names {
		var t stopTarget
		agent, isAgent := strings.CutPrefix(name, anAgent)
		server, isServer := strings.CutPrefix(name, aServer)
		switch {
		case name == everything:
			t.All = true
		case name == every && undo:
			t.Every = true
		case isAgent:
			t.Agent = agent
		case isServer:
			t.Server = server
		case strings.Contains(name, ":"):
			return nil, fmt.Errorf("%s is neither a server nor agent:ID: write an agent as agent:token:ci; to disable a tool, run portcullis disable %s", text.Quote(name, 128), typed(name))
		default:
			t.Server = name
		}
		if !t.Every {
			if err := t.Check(); err != nil {
				return nil, fmt.Errorf("%s: %w", text.Quote(name, 128), err)
			}
		}
		out = append(out, t)
	}
	return out, nil
}

// eachStop calls change for one target after the other, which stops the target or undoes its stop.
// For each result it calls say, which prints the result.
func (g *gateway) eachStop(
	f askFlags, env *environment, targets []stopTarget,
	say func(w, stderr io.Writer, t stopTarget, done decide.Stopped),
	change func(stopTarget) (client.Answer[decide.Stopped], error),
) error {
	var failed []error
	for _, t := range targets {
		done, err := change(t)
		if err == nil && !done.Value.Recorded {
			fmt.Fprintln(env.stderr, "warning: the change took effect, but its audit event could not be "+
				"stored; the gateway's log has the event")
		}
		if err == nil {
			err = f.print(env.stdout, done, func(w io.Writer) { say(w, env.stderr, t, done.Value) })
			if err != nil {
				err = fmt.Errorf("%s: the change took effect, but the result cannot be printed: %w", g.Command, err)
			}
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// showStops prints the stops.
func showStops(w, stderr io.Writer, s decide.Stops) {
	if len(s.Stops) == 0 {
		fmt.Fprintln(stderr, "nothing is stopped")
		return
	}
	t := newTable(w, "STOPPED", "BY", "SINCE", "REASON")
	for _, one := range s.Stops {
		since := "-"
		if !one.At.IsZero() {
			since = atMinute(one.At)
		}
		t.row(nameOf(one.Target), cmp.Or(one.By, "mcp_config.json"), since, one.Reason)
	}
	t.end()
}

// nameOf returns a target in the syntax of this command.
func nameOf(t stops.Target) string {
	switch {
	case t.Agent != "":
		return anAgent + t.Agent
	case t.Server == everything, t.Server == every, t.Server == "undo", t.Server == "now":
		return aServer + t.Server
	case t.Server != "":
		return t.Server
	}
	return everything
}

// showStopped prints the effect of a stop.
func showStopped(w, stderr io.Writer, t stopTarget, done decide.Stopped) {
	what := text.Clip(text.Line(t.String()), 600)
	if !done.Changed {
		fmt.Fprintf(w, "%s was stopped already, and nothing changed: agents see who stopped it "+
			"first, and why\n", what)
	} else {
		fmt.Fprintf(w, "%s is stopped: the next call is refused in every process, and calls that "+
			"run are cancelled\nportcullis stop undo %s undoes this\n",
			what, typed(nameOf(t.Target)))
	}
	if done.Unlisted {
		fmt.Fprintln(stderr, "warning: no agent with this id has called, and no valid agent "+
			"token has it. Unless a JWT or a signature has exactly this id, the stop has no "+
			"effect. portcullis audit prints the ids of agents")
	}
}

// showUndone prints the effect of an undo.
func showUndone(w, stderr io.Writer, t stopTarget, done decide.Stopped) {
	switch what := text.Clip(text.Line(t.String()), 600); {
	case !done.Changed:
		fmt.Fprintln(w, "there is no stop that can be undone here; nothing was changed")
	case t.Every:
		fmt.Fprintln(w, "every stop of people is undone: the next call goes through if nothing else locks the tool")
	default:
		fmt.Fprintf(w, "%s is not stopped any more: the next call goes through if nothing else locks the tool\n", what)
	}
	if len(done.Stops.Stops) > 0 {
		fmt.Fprintf(stderr, "%s left: portcullis stop lists what is stopped\n", text.Count(len(done.Stops.Stops), "stop"))
	}
}
