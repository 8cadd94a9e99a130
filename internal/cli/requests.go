package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
)

// requestsName is the name of the command in errors.
const requestsName = "requests"

// A requestsCmd is portcullis requests.
type requestsCmd struct {
	List    listRequestsCmd  `cmd:"" reads:"requests" default:"withargs" help:"Print the requests that are open."`
	Show    showRequestCmd   `cmd:"" reads:"requests" help:"Print one request."`
	Approve approveCmd       `cmd:"" changes:"requests" help:"Approve the requested definition for all agents."`
	Allow   allowCmd         `cmd:"" changes:"requests" help:"Allow the item to the requesting agent for a limited time."`
	Confirm confirmCmd       `cmd:"" changes:"requests" help:"Confirm one call with its arguments."`
	Decline declineCmd       `cmd:"" changes:"requests" help:"Decline a request."`
	Revoke  revokeRequestCmd `cmd:"" changes:"requests" help:"Revoke what was allowed or confirmed."`
}

// A listRequestsCmd is portcullis requests list.
type listRequestsCmd struct {
	askFlags
	All bool `help:"Also requests that are decided or have ended."`
}

// Run prints the requests.
func (c listRequestsCmd) Run(ctx context.Context, env *environment, g *gateway) error {
	state := "open"
	if c.All {
		state = "all"
	}
	list, err := client.Requests.Do(ctx, g.Client, url.Values{"state": {state}}, nil)
	if err != nil {
		return err
	}
	return c.print(env.stdout, list, func(w io.Writer) { showRequests(w, env.stderr, list.Value) })
}

// showRequests prints requests for people.
func showRequests(w, stderr io.Writer, list admin.Requests) {
	if !list.All {
		fmt.Fprintln(stderr, "there are more requests than this list has, "+
			"or some cannot be read: the gateway's log says which")
	}
	if len(list.Requests) == 0 {
		fmt.Fprintln(stderr, "there are no requests")
		return
	}
	t := newTable(w, "ID", "STATE", "AGENT", "WHAT", "LOCKED", "OPENED", "NOTE")
	for _, r := range list.Requests {
		note := text.Clip(text.Line(cmp.Or(r.Why, r.Note)), 80)
		t.row(r.ID, string(r.State), whoAsks(r), whatIsAsked(r), decide.StatusText(r.Locked),
			atMinute(r.Opened), note)
	}
	t.end()
}

// whoAsks returns the agent and its user.
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

// A requestID selects a request.
type requestID struct {
	askFlags
	ID string `arg:"" help:"Id of the request, such as R-7KQ2M4XD."`
}

// read reads the request from a gateway, which the caller closes.
func (c requestID) read(ctx context.Context, g *gateway) (client.Answer[decide.Request], error) {
	id, err := request.ParseID(c.ID)
	if err != nil {
		return client.Answer[decide.Request]{}, fmt.Errorf("requests: %w", err)
	}
	return client.Request.Do(ctx, g.Client, nil, nil, id)
}

// A showRequestCmd is portcullis requests show.
type showRequestCmd struct{ requestID }

// Run prints one request.
func (c showRequestCmd) Run(ctx context.Context, env *environment, g *gateway) error {
	asked, err := c.read(ctx, g)
	if err != nil {
		return err
	}
	t, err := g.itemOf(ctx, asked.Value)
	if err != nil {
		return err
	}
	return c.print(env.stdout, asked, func(w io.Writer) { showRequestReview(w, asked.Value, t) })
}

// itemOf returns the current item of a request. If the item does not exist, its hash is "".
func (g *gateway) itemOf(ctx context.Context, r decide.Request) (decide.Tool, error) {
	t, err := g.Item(ctx, r.Item(), approval.ActionApprove)
	if client.IsNotFound(err) {
		err = nil
	}
	return t.Value, err
}

// showRequestReview prints the text to read before a decision about a request: the request, its
// definition, and all arguments of a call.
func showRequestReview(w io.Writer, r decide.Request, t decide.Tool) {
	showRequest(w, r)
	fmt.Fprintln(w)
	if t.Hash == r.Hash {
		showReview(w, t)
	} else {
		fmt.Fprintln(w, "the requested definition does not exist any more")
	}
	switch {
	case len(r.Arguments) > 0:
		indented(w, "arguments of the call, hash "+inLine(r.Args)+":", rawjson.Indent(r.Arguments, "", "  "))
	case r.OneCall():
		fmt.Fprintln(w, "the arguments of the call are not kept any more")
	}
}

// indented prints a whole foreign text below its name.
func indented(w io.Writer, name, value string) {
	if value == "" {
		return
	}
	fmt.Fprintln(w, name)
	for line := range strings.Lines(value) {
		fmt.Fprintf(w, "    %s\n", readable(strings.TrimRight(line, "\r\n")))
	}
}

// showRequest prints a request for people. It prints each invisible character of foreign text as a
// number, and no control characters for terminals.
func showRequest(w io.Writer, r decide.Request) {
	line := func(name, value string) {
		if value = text.Clip(text.Line(value), 2000); value != "" {
			fmt.Fprintf(w, "%-11s %s\n", name, value)
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
	indented(w, "rules that let this agent call it: put them into policy.cedar instead of the "+
		"rules that deny it:", r.Exempt)
	line("still open", text.List(r.Unsettled, 20))
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

// An approveCmd is portcullis requests approve.
type approveCmd struct {
	verdictFlags
	Note string `placeholder:"TEXT" help:"Note of the approval; required if the definition has a severe finding."`
}

// Run approves.
func (c approveCmd) Run(ctx context.Context, env *environment, g *gateway) error {
	return c.decide(ctx, env, g, request.Approved, 0, c.Note)
}

// An allowCmd is portcullis requests allow.
type allowCmd struct {
	verdictFlags
	For    duration `required:"" placeholder:"TIME" help:"How long: 90m, 8h, 7d; at most 30d."`
	Reason string   `placeholder:"TEXT" help:"Reason; required if the definition has a severe finding."`
}

// Run allows.
func (c allowCmd) Run(ctx context.Context, env *environment, g *gateway) error {
	return c.decide(ctx, env, g, request.Allowed, int(c.For), c.Reason)
}

// A duration is a number of minutes, written as 90m, 8h or 7d.
type duration int

var _ kong.MapperValue = (*duration)(nil)

// Decode implements kong's reading of a flag.
func (l *duration) Decode(c *kong.DecodeContext) error {
	var s string
	if err := c.Scan.PopValueInto("time", &s); err != nil {
		return err
	}
	n, err := parseLasting(s)
	*l = duration(n)
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
func (c confirmCmd) Run(ctx context.Context, env *environment, g *gateway) error {
	return c.decide(ctx, env, g, request.Confirmed, 0, "")
}

// A declineCmd is portcullis requests decline.
type declineCmd struct {
	verdictFlags
	Reason string `required:"" placeholder:"TEXT" help:"Reason, and what to do instead; the agent sees it."`
}

// Run declines.
func (c declineCmd) Run(ctx context.Context, env *environment, g *gateway) error {
	return c.decide(ctx, env, g, request.Declined, 0, c.Reason)
}

// A revokeRequestCmd is portcullis requests revoke.
type revokeRequestCmd struct {
	verdictFlags
	Reason string `placeholder:"TEXT" help:"Reason; the agent sees it."`
}

// Run revokes.
func (c revokeRequestCmd) Run(ctx context.Context, env *environment, g *gateway) error {
	return c.decide(ctx, env, g, request.Revoked, 0, c.Reason)
}
