package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/alecthomas/kong"

	"github.com/portcullis-mcp/portcullis/pkg/decide"
	"github.com/portcullis-mcp/portcullis/pkg/request"
	"github.com/portcullis-mcp/portcullis/pkg/text"
)

// A requestsCmd is portcullis requests.
type requestsCmd struct {
	List    listRequestsCmd  `cmd:"" default:"withargs" help:"Print the requests that are open."`
	Show    showRequestCmd   `cmd:"" help:"Print one request, with the arguments of a call that waits, or the rule that denies."`
	Approve approveCmd       `cmd:"" help:"Approve the definition, for all agents."`
	Allow   allowCmd         `cmd:"" help:"Let this agent alone call it, for a time."`
	Confirm confirmCmd       `cmd:"" help:"Confirm one call with its arguments: it can be made once, within an hour."`
	Decline declineCmd       `cmd:"" help:"Say no; the agent is told why."`
	Revoke  revokeRequestCmd `cmd:"" help:"End what was allowed or confirmed."`
}

// Help implements kong's longer help.
func (requestsCmd) Help() string {
	return `Asks a gateway that runs: --url, and --dir for the admin key or PORTCULLIS_TOKEN.`
}

// A gatewayFlags is which gateway, and in what form it answers.
type gatewayFlags struct {
	URL  string `required:"" placeholder:"URL" help:"Gateway that runs, such as http://127.0.0.1:8080. The credential is the admin key of --dir, or PORTCULLIS_TOKEN."`
	Dir  string `placeholder:"DIR" help:"Folder that holds the admin key."`
	JSON bool   `help:"The answer of the API, as JSON."`
}

// call asks the API, and prints the answer as JSON or as show does.
func call[T any](ctx context.Context, f gatewayFlags, env *environment, path string, query url.Values, body any, show func(io.Writer, T)) error {
	var raw json.RawMessage
	if err := (running{"requests", f.URL, f.Dir}).read(ctx, env, path, query, body, &raw); err != nil {
		return err
	}
	var out bytes.Buffer
	if f.JSON {
		if err := json.Indent(&out, raw, "", "  "); err != nil {
			return err
		}
		out = *bytes.NewBufferString(escaped(out.String()) + "\n")
	} else {
		var answer T
		if err := json.Unmarshal(raw, &answer); err != nil {
			return fmt.Errorf("requests: the gateway's answer cannot be read: %w", err)
		}
		show(&out, answer)
	}
	_, err := env.stdout.Write(out.Bytes())
	return err
}

// escaped returns indented JSON with each character of its strings that does not print as its number, as
// JSON writes it: a terminal obeys some of them.
func escaped(json string) string {
	var out strings.Builder
	for _, r := range json {
		switch {
		case r == '\n', unicode.IsPrint(r):
			out.WriteRune(r)
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&out, `\u%04x`, unit)
			}
		}
	}
	return out.String()
}

// A requestList is the answer to a list of requests.
type requestList struct {
	Requests []decide.Request
	All      bool
}

// A listRequestsCmd is portcullis requests list.
type listRequestsCmd struct {
	gatewayFlags
	All bool `help:"Also those that are decided or over."`
}

// Run prints the requests.
func (c listRequestsCmd) Run(ctx context.Context, env *environment) error {
	state := "open"
	if c.All {
		state = "all"
	}
	return call(ctx, c.gatewayFlags, env, "/admin/requests", url.Values{"state": {state}}, nil, func(w io.Writer, list requestList) {
		if !list.All {
			fmt.Fprintln(env.stderr, "there are more requests than are listed, or some cannot be read: the gateway's log says which")
		}
		if len(list.Requests) == 0 {
			fmt.Fprintln(env.stderr, "nothing is asked for")
			return
		}
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "ID\tSTATE\tAGENT\tWHAT\tLOCKED\tOPENED\tNOTE")
		for _, r := range list.Requests {
			fmt.Fprintln(table, strings.Join([]string{
				inLine(r.ID), inLine(string(r.State)), inLine(whoAsks(r)), inLine(whatIsAsked(r)), inLine(decide.StatusText(r.Locked)),
				r.Opened.UTC().Format("2006-01-02 15:04"), text.Clip(text.Line(cmp.Or(r.Why, r.Note)), 80),
			}, "\t"))
		}
		_ = table.Flush() // into memory
	})
}

// inLine returns a text of somebody as it may stand in one line of a terminal.
func inLine(s string) string { return text.Clip(text.Line(s), 120) }

// whoAsks names the agent, and its person.
func whoAsks(r decide.Request) string {
	if r.Agent.Human != "" {
		return r.Agent.ID + " for " + r.Agent.Human
	}
	return r.Agent.ID
}

func whatIsAsked(r decide.Request) string {
	if r.OneCall() {
		return "one call of " + r.Item().String()
	}
	return r.Item().String()
}

// A requestID is which request.
type requestID struct {
	gatewayFlags
	ID string `arg:"" help:"Of the request, such as R-7KQ2M4XD."`
}

func (c requestID) path() (string, error) {
	id, err := request.ParseID(c.ID)
	if err != nil {
		return "", fmt.Errorf("requests: %w", err)
	}
	return "/admin/requests/" + id, nil
}

// A showRequestCmd is portcullis requests show.
type showRequestCmd struct{ requestID }

// Run prints one request.
func (c showRequestCmd) Run(ctx context.Context, env *environment) error {
	path, err := c.path()
	if err != nil {
		return err
	}
	return call(ctx, c.gatewayFlags, env, path, nil, nil, showRequest)
}

// showRequest prints a request for people: of what others wrote each character that is not seen as its
// number, and nothing that a terminal obeys.
func showRequest(w io.Writer, r decide.Request) {
	line := func(name, value string) {
		if value = text.Clip(text.Line(value), 2000); value != "" {
			fmt.Fprintf(w, "%-11s %s\n", name, value)
		}
	}
	block := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\n", name)
			for l := range strings.Lines(text.Reveal(value)) {
				fmt.Fprintf(w, "    %s\n", text.Clip(strings.ReplaceAll(strings.TrimRight(l, "\r\n"), "\t", "    "), 4000))
			}
		}
	}
	line("request", r.ID+", "+string(r.State))
	line("", r.EndedBy)
	line("agent", whoAsks(r))
	line("what", whatIsAsked(r)+" ("+string(r.Hash)+")")
	line("note", r.Note)
	line("why", r.Why)
	if r.Minutes > 0 {
		line("for", text.Count(r.Minutes, "minute"))
	}
	line("locked", lockedAs(r))
	line("rule", r.Rule)
	if d := r.Decided; d.By != "" {
		line("decided", fmt.Sprintf("%s by %s at %s: %s", d.Verdict, d.By, atMinute(d.At), cmp.Or(d.Reason, "no reason given")))
		if d.Verdict == request.Allowed || d.Verdict == request.Confirmed {
			line("until", atMinute(d.Ends))
		}
	}
	if !r.UsedAt.IsZero() {
		line("used", atMinute(r.UsedAt))
	}
	line("proposed by", r.Proposed)
	line("joined", text.List(r.Alike, 20))
	line("page", r.Link)
	if pretty := new(bytes.Buffer); len(r.Arguments) > 0 && json.Indent(pretty, r.Arguments, "", "  ") == nil {
		block("arguments of the call:", pretty.String())
	}
	block("rules that let this agent call it, to be put into policy.cedar in the place of those that deny it:", r.Exempt)
	line("open still", text.List(r.Unsettled, 20))
	if r.Unrecorded {
		line("audit", "a line could not be written; the gateway's log has it")
	}
}

func lockedAs(r decide.Request) string {
	s := decide.StatusText(r.Locked)
	if r.Unsure {
		s += ", as far as is known without the agent's token"
	}
	return s
}

func atMinute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// A verdictFlags is what all decisions take.
type verdictFlags struct {
	requestID
	Hash string `placeholder:"HASH" help:"Of the definition, as show prints it: nothing is decided if it is another. Without it, that of the request now."`
}

// decide sends a decision about the request as it is now.
func (c verdictFlags) decide(ctx context.Context, env *environment, v request.Verdict, minutes int, reason string) error {
	path, err := c.path()
	if err != nil {
		return err
	}
	var r decide.Request
	if err := (running{"requests", c.URL, c.Dir}).read(ctx, env, path, nil, nil, &r); err != nil {
		return err
	}
	body := map[string]any{"verdict": v, "hash": cmp.Or(c.Hash, string(r.Hash)), "args": r.Args, "tool": r.Item().String(), "agent": r.Agent, "reason": reason}
	if minutes > 0 {
		body["minutes"] = minutes
	}
	return call(ctx, c.gatewayFlags, env, path+"/decide", nil, body, showRequest)
}

// An approveCmd is portcullis requests approve.
type approveCmd struct {
	verdictFlags
	Note string `placeholder:"TEXT" help:"Of the approval; needed if the definition has a severe finding."`
}

// Run approves.
func (c approveCmd) Run(ctx context.Context, env *environment) error {
	return c.decide(ctx, env, request.Approved, 0, c.Note)
}

// An allowCmd is portcullis requests allow.
type allowCmd struct {
	verdictFlags
	For    lasting `required:"" placeholder:"TIME" help:"How long: 90m, 8h, 7d; at most 30d."`
	Reason string  `placeholder:"TEXT" help:"Why; needed if the definition has a severe finding."`
}

// Run allows.
func (c allowCmd) Run(ctx context.Context, env *environment) error {
	return c.decide(ctx, env, request.Allowed, int(c.For), c.Reason)
}

// A lasting is a number of minutes, written as 90m, 8h or 7d.
type lasting int

var _ kong.MapperValue = (*lasting)(nil)

// Decode implements kong's reading of a flag.
func (l *lasting) Decode(c *kong.DecodeContext) error {
	var s string
	if err := c.Scan.PopValueInto("time", &s); err != nil {
		return err
	}
	n, err := parseLasting(s)
	*l = lasting(n)
	return err
}

func parseLasting(s string) (minutes int, err error) {
	unit := map[string]int{"m": 1, "h": 60, "d": 24 * 60}
	if len(s) > 1 && unit[s[len(s)-1:]] > 0 {
		n, err := strconv.Atoi(s[:len(s)-1])
		if one := unit[s[len(s)-1:]]; err == nil && n > 0 && n <= request.MaxMinutes/one {
			return n * one, nil
		}
	}
	return 0, errors.New("want a time of 1m to 30d, such as 90m, 8h or 7d")
}

// A confirmCmd is portcullis requests confirm.
type confirmCmd struct{ verdictFlags }

// Run confirms.
func (c confirmCmd) Run(ctx context.Context, env *environment) error {
	return c.decide(ctx, env, request.Confirmed, 0, "")
}

// A declineCmd is portcullis requests decline.
type declineCmd struct {
	verdictFlags
	Reason string `required:"" placeholder:"TEXT" help:"Why, and what to do instead: the agent is told it."`
}

// Run declines.
func (c declineCmd) Run(ctx context.Context, env *environment) error {
	return c.decide(ctx, env, request.Declined, 0, c.Reason)
}

// A revokeRequestCmd is portcullis requests revoke.
type revokeRequestCmd struct {
	verdictFlags
	Reason string `placeholder:"TEXT" help:"Why; the agent is told it."`
}

// Run revokes.
func (c revokeRequestCmd) Run(ctx context.Context, env *environment) error {
	return c.decide(ctx, env, request.Revoked, 0, c.Reason)
}
