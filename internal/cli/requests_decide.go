package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A verdictFlags is what all decisions take.
type verdictFlags struct {
	requestID
	Hash string `placeholder:"HASH" help:"Of the definition that you have read, for confirm of the arguments; the first 12 digits are enough. Nothing is decided if it is another. Without a terminal approve, allow and confirm need it."`
}

// decide sends a decision about the request as it is now. Before a verdict that opens something it
// prints what the verdict opens, and asks. The decision names what was printed.
func (c verdictFlags) decide(
	ctx context.Context, env *environment, v request.Verdict, minutes int, reason string,
) error {
	g, err := c.open(ctx, env, requestsName)
	if err != nil {
		return err
	}
	defer g.close()
	asked, err := c.read(ctx, g)
	if err != nil {
		return err
	}
	r := asked.Value
	question := map[request.Verdict]string{
		request.Approved:  "Approve this definition, for all agents?",
		request.Allowed:   "Allow it to this agent alone, for " + text.Minutes(minutes) + "?",
		request.Confirmed: "Confirm this call, which can be made once, within an hour?",
	}[v]
	if question != "" {
		err = refusesToOpen(r, v)
	}
	if err == nil {
		err = c.namesSeen(r, v)
	}
	if err == nil && question != "" {
		said := said{Hash: c.Hash, Note: reason}
		d := &decider{gateway: g, askFlags: c.askFlags, said: said, env: env, action: requestsName}
		err = d.agreedToRequest(ctx, r, v, question)
	}
	if err != nil {
		return err
	}
	done, err := g.DecideRequest(ctx, r, v, minutes, reason)
	if err != nil {
		return err
	}
	return c.print(env.stdout, done, func(w io.Writer) { showRequest(w, done.Value) })
}

// namesSeen refuses a --hash that is not of what the decision is about.
func (c verdictFlags) namesSeen(r decide.Request, v request.Verdict) error {
	if c.Hash == "" {
		return nil
	}
	hash, what := r.Hash, "definition"
	if v == request.Confirmed {
		hash, what = tool.Hash(r.Args), "arguments"
	}
	named, err := hashNamed(c.Hash, hash)
	if err == nil && named == "" {
		err = fmt.Errorf("--hash does not name the %s of %s, whose hash is %s, and nothing was decided: "+
			"portcullis requests show %[2]s prints what it is about", what, inLine(r.ID), shortHash(hash))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", requestsName, err)
	}
	return nil
}

// refusesToOpen says why the gateway would refuse to open what a request asks for; nil: it may open it.
func refusesToOpen(r decide.Request, v request.Verdict) error {
	var why string
	switch id := inLine(r.ID); {
	case r.State != decide.RequestOpen:
		why = fmt.Sprintf("%s is not open any more, but %s%s, and nothing was decided now: "+
			"portcullis requests show %[1]s prints it", id, inLine(string(r.State)), endedBy(r))
	case r.OneCall() && v != request.Confirmed:
		why = id + " is about one call, and nothing was decided: " +
			"portcullis requests confirm, or decline, decides about it"
	case !r.OneCall() && v == request.Confirmed:
		why = id + " is not about one call, and nothing was decided: " +
			"portcullis requests approve, allow or decline decides about it"
	case r.OneCall() && len(r.Arguments) == 0:
		why = "the arguments of this call are not kept any more, and nothing was decided: " +
			"the agent asks again with the next call"
	case r.Rule != "":
		why = fmt.Sprintf("no decision opens %s, which is locked as %s, and nothing was decided: %s",
			inLine(r.Item().String()), decide.StatusText(r.Locked), text.Clip(text.Line(r.Rule), client.MaxDetail))
	default:
		return nil
	}
	return errors.New(requestsName + ": " + why)
}

// endedBy says why a request is not open any more, or who decided about it.
func endedBy(r decide.Request) string {
	switch {
	case r.EndedBy != "":
		return " (" + inLine(r.EndedBy) + ")"
	case r.Decided.By != "":
		return " by " + inLine(r.Decided.By)
	}
	return ""
}

// agreedToRequest prints what a verdict opens, and asks.
func (d *decider) agreedToRequest(
	ctx context.Context, r decide.Request, v request.Verdict, question string,
) error {
	t, err := d.itemOf(ctx, r)
	switch {
	case err != nil:
		return err
	case t.Hash != r.Hash:
		return fmt.Errorf("%s: the definition of %s changed since it was asked for, and nothing was decided: "+
			"the agent has to ask again", d.action, inLine(r.Item().String()))
	case len(t.Definition) == 0:
		return fmt.Errorf("%s: %w", d.action, errNoText(t.ID))
	}
	showRequestReview(d.env.stderr, r, t)
	if v == request.Confirmed {
		return d.agreed(question, "arguments")
	}
	note := "--note"
	if v == request.Allowed {
		note = "--reason"
	}
	if hasSevere(t) && text.Blank(d.Note) {
		return fmt.Errorf("%s: %s has a severe finding, and nothing was decided: "+
			"if it is to be opened all the same, say why with %s", d.action, inLine(t.ID), note)
	}
	return d.agreed(question, "definition")
}
