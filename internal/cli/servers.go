package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// A serversCmd is portcullis servers.
type serversCmd struct {
	List    listServersCmd   `cmd:"" reads:"servers" default:"withargs" help:"Print the servers, and where the gateway is signed in."`
	Add     addServerCmd     `cmd:"" help:"Add a server to the config."`
	Remove  removeServerCmd  `cmd:"" help:"Remove a server from the config."`
	Enable  enableServerCmd  `cmd:"" help:"Enable a server in the config."`
	Disable disableServerCmd `cmd:"" help:"Disable a server in the config."`
	Restart restartServerCmd `cmd:"" help:"Restart a server at the gateway that runs."`
	Logs    logsServerCmd    `cmd:"" reads:"servers logs" help:"Print the last messages of a server."`

	Login  loginServerCmd  `cmd:"" help:"Sign the gateway in to a server that requires OAuth."`
	Logout logoutServerCmd `cmd:"" changes:"servers logout" help:"End the gateway's sign-in at a server."`
}

// A listServersCmd is portcullis servers.
type listServersCmd struct {
	askFlags
	Name string `arg:"" optional:"" name:"server" help:"Name of one server, for its sign-in in detail."`
}

// Run prints the servers.
func (c listServersCmd) Run(ctx context.Context, env *environment, g *gateway) error {
	if c.Name != "" {
		s, err := client.Server.Do(ctx, g.Client, nil, nil, url.PathEscape(c.Name))
		if err != nil {
			return err
		}
		return c.print(env.stdout, s, func(w io.Writer) { showServer(w, s.Value) })
	}
	all, err := g.Servers(ctx)
	if err != nil {
		return err
	}
	if c.json() {
		return printJSON(env.stdout, map[string]any{"servers": all})
	}
	if len(all) == 0 {
		fmt.Fprintln(env.stderr, "no server is known: the config has none, or cannot be used; "+
			"portcullis check says which")
		return nil
	}
	return printWhole(env.stdout, func(w io.Writer) {
		t := newTable(w, "NAME", "OUTCOME", "TOOLS", "CONNECTION", "LAST MESSAGE")
		for _, s := range all {
			status, message := s.Outcome.Status, s.LastMessage
			if !s.Enabled {
				status = "disabled"
			} else if status != string(outcome.Available) {
				message = cmp.Or(s.Outcome.Message, message)
			}
			tools := strconv.Itoa(s.Tools.Callable + s.Tools.Locked())
			t.row(s.Name, status, tools, signInOf(s), cmp.Or(message, "-"))
		}
		t.end()
	})
}

// signInOf returns the sign-in of a server in a word.
func signInOf(s decide.Server) string {
	switch o := (outcome.Outcome{Reason: s.Outcome.Reason}); {
	case o.SignInEnded():
		return "ended"
	case o.NeedsSignIn():
		return "required"
	case s.Outcome.Connected:
		return "yes"
	}
	return "-"
}

// showServer prints one server with its sign-in.
func showServer(w io.Writer, s decide.ServerDetail) {
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%-12s %s\n", name, text.Line(value))
		}
	}
	row("server", s.Name)
	row("status", s.Outcome.Status)
	row("message", s.Outcome.Message)
	c := s.Connection
	if c == nil {
		if s.SignIn {
			row("sign-in", "none")
		}
		return
	}
	state := c.Status
	if c.Reason != "" {
		state += ": " + c.Reason
	}
	row("sign-in", state)
	row("issuer", c.Issuer)
	row("by", c.By)
	row("since", minuteOf(c.Since))
	row("ended", minuteOf(c.EndedAt))
	row("token until", minuteOf(c.Expires))
	if c.Renewals > 0 {
		row("renewed", text.Count(c.Renewals, "time")+" on "+c.Renewed.UTC().Format(time.DateOnly))
	}
	row("scopes", strings.Join(c.Scopes, " "))
	row("not granted", strings.Join(c.Missing, " "))
	if c.Status != "ended" && !c.Renewable && !c.Expires.IsZero() {
		row("renewal", "none: the issuer gave no refresh token, so sign in again after that time")
	}
}

func minuteOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return atMinute(t)
}

// A loginServerCmd is portcullis servers login.
type loginServerCmd struct {
	askFlags
	Name      string `arg:"" name:"server" help:"Name of the server in the config."`
	NoBrowser bool   `help:"Print the address and open no browser. Then paste the address to which the browser was sent."`
	Yes       bool   `help:"Agree to a changed issuer, or to a new key, without a question."`
}

// Run signs in.
func (c loginServerCmd) Run(ctx context.Context, env *environment) error {
	g, err := c.open(ctx, env, "servers login")
	if err != nil {
		return err
	}
	defer g.close()
	l, err := listenNear(ctx, c.Name)
	if err != nil {
		return fmt.Errorf(
			"servers login: no port of 127.0.0.1 can be opened for the way back: %w",
			err,
		)
	}
	defer func() { _ = l.Close() }()
	q := decide.SignInQuery{Redirect: "http://" + l.Addr().String() + "/callback", Confirm: c.Yes}
	s, err := client.StartSignIn.Do(ctx, g.Client, nil, q, url.PathEscape(c.Name))
	if err == nil && s.Value.Question != "" {
		if err = c.confirm(env, s.Value.Question); err == nil {
			q.Confirm = true
			s, err = client.StartSignIn.Do(ctx, g.Client, nil, q, url.PathEscape(c.Name))
		}
	}
	if err != nil {
		return err
	}
	query, err := c.wait(ctx, env, l, s.Value)
	if err != nil {
		return fmt.Errorf("servers login: %w; nobody was signed in", err)
	}
	done, err := client.FinishSignIn.Do(
		ctx,
		g.Client,
		nil,
		map[string]string{"state": s.Value.State, "query": query},
	)
	if err != nil {
		return err
	}
	return c.print(env.stdout, done, func(w io.Writer) { showSignedIn(w, done.Value) })
}

// confirm asks the person at the terminal.
func (c loginServerCmd) confirm(env *environment, question string) error {
	if !env.terminal {
		return fmt.Errorf("servers login: %s; --yes agrees. Nobody was signed in", question)
	}
	fmt.Fprintf(env.stderr, "%s\nagree? [y/N] ", sentenceOf(question))
	line, _ := bufio.NewReader(env.stdin).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return errors.New("servers login: not agreed, and nobody was signed in")
	}
	return nil
}

func sentenceOf(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }

// wait sends the person to the issuer, and returns the query of the callback.
func (c loginServerCmd) wait(
	ctx context.Context,
	env *environment,
	l net.Listener,
	s decide.SignInStart,
) (string, error) {
	fmt.Fprintf(env.stderr, "sign in at %s:\n\n  %s\n\n", inLine(s.Issuer), s.URL)
	if len(s.Scopes) > 0 {
		fmt.Fprintf(env.stderr, "requested: %s\n", inLine(strings.Join(s.Scopes, " ")))
	}
	if s.Unchecked {
		fmt.Fprintln(
			env.stderr,
			"warning: the issuer publishes no metadata, so nobody knows whether it supports PKCE",
		)
	}
	if c.NoBrowser || env.browse == nil {
		fmt.Fprint(env.stderr, pastePrompt)
		return pasted(env.stdin)
	}
	startBrowser(ctx, env, s.URL)
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	var query string
	err := callback(ctx, l, s.URL, s.Issuer, func(came string) string {
		query = came
		return "Look at the terminal: it says whether the sign-in succeeded."
	})
	return query, err
}

// showSignedIn prints the result of a login.
func showSignedIn(w io.Writer, s decide.SignedIn) {
	c := s.Connection
	fmt.Fprintf(w, "signed in to %s at %s\n", inLine(c.Server), inLine(c.Issuer))
	if len(c.Missing) > 0 {
		fmt.Fprintf(w, "not granted: %s\n", inLine(strings.Join(c.Missing, " ")))
	}
	switch {
	case s.Outcome == nil:
		fmt.Fprintln(w, "its tools are loaded by the next sync")
	case s.Outcome.Status == string(outcome.Available):
		fmt.Fprintf(
			w,
			"it has %s; portcullis tools --server %s lists them\n",
			text.Count(s.Tools, "tool"),
			typed(c.Server),
		)
	default:
		fmt.Fprintf(w, "but it did not load: %s\n", inLine(s.Outcome.Message))
	}
}

// A logoutServerCmd is portcullis servers logout.
type logoutServerCmd struct {
	askFlags
	Name string `arg:"" name:"server" help:"Name of the server in the config."`
}

// Run signs out.
func (c logoutServerCmd) Run(ctx context.Context, env *environment, g *gateway) error {
	done, err := client.SignOut.Do(ctx, g.Client, nil, client.Empty{}, url.PathEscape(c.Name))
	if err != nil {
		return err
	}
	return c.print(env.stdout, done, func(w io.Writer) {
		showSignedOut(w, done.Value, "the gateway was not signed in to ", c.Name)
	})
}

// showSignedOut prints the result of a sign-out from name. wasNot begins the sentence for a sign-in
// that did not exist.
func showSignedOut(w io.Writer, out decide.SignedOut, wasNot, name string) {
	name = inLine(name)
	switch {
	case !out.Was:
		fmt.Fprintf(w, "%s%s; nothing was changed\n", wasNot, name)
	case out.Revoked:
		fmt.Fprintf(w, "signed out of %s: the tokens are deleted here and revoked at the "+
			"issuer\n", name)
	case out.Problem == "":
		fmt.Fprintf(w, "signed out of %s\n", name)
	default:
		fmt.Fprintf(w, "signed out of %s: the tokens are deleted here, but the issuer did not "+
			"revoke them (%s). "+
			"Revoke the access in your account there\n", name, inLine(out.Problem))
	}
}
