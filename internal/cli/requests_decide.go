package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// verdictFlags are the common flags of all decisions.
type verdictFlags struct {
	requestID
	Hash string `placeholder:"HASH" help:"Hash of the definition (for confirm: of the arguments) that you have read; the first 12 digits are enough. If the definition or the arguments have changed since then, nothing is decided. Without a terminal, approve, allow and confirm need this flag."`
}

// decide sends a decision about the current request. Before a verdict that unlocks something, it
// prints the effect and asks. The decision applies only to the printed definition.
func (c verdictFlags) decide(
	ctx context.Context, env *environment, g *gateway,
	v request.Verdict, minutes int, reason string,
) error {
	asked, err := c.read(ctx, g)
	if err != nil {
		return err
	}
	r := asked.Value
	question := map[request.Verdict]string{
		request.Approved:  "Approve this definition, for all agents?",
		request.Allowed:   "Allow this definition only to this agent, for " + text.Minutes(minutes) + "?",
		request.Confirmed: "Confirm this call, which can be made once, within an hour?",
	}[v]
	d := &decider{
		gateway: g, askFlags: c.askFlags, decisionFlags: decisionFlags{Hash: c.Hash, Note: reason},
		env: env, action: requestsName,
	}
	err = d.refusal(r.Obstacles[v])
	if err == nil {
		err = c.namesSeen(r, v)
	}
	if err == nil && question != "" {
		err = d.confirmRequest(ctx, r, v, question)
	}
	if err != nil {
		return err
	}
	body := struct {
		Verdict request.Verdict   `json:"verdict"`
		Hash    tool.Hash         `json:"hash,omitempty"`
		Args    string            `json:"args,omitempty"`
		Tool    string            `json:"tool"`
		Agent   request.Agent     `json:"agent"`
		Minutes int               `json:"minutes,omitempty"`
		Reason  string            `json:"reason,omitempty"`
		Shown   decide.ViewMethod `json:"shown,omitempty"`
	}{v, r.Hash, r.Args, r.Item().String(), r.Agent, minutes, reason, shownBy(c.Hash)}
	done, err := client.DecideRequest.Do(ctx, g.Client, nil, body, r.ID)
	if err != nil {
		return err
	}
	return c.print(env.stdout, done, func(w io.Writer) { showRequest(w, done.Value) })
}

// namesSeen returns an error if --hash is not the hash of the request's definition. If v confirms a
// call, --hash must be the hash of the call's arguments.
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
			"portcullis requests show %[2]s prints the %[1]s", what, inLine(r.ID), shortHash(hash))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", requestsName, err)
	}
	return nil
}

// confirmRequest prints the effect of a verdict, and asks.
func (d *decider) confirmRequest(
	ctx context.Context, r decide.Request, v request.Verdict, question string,
) error {
	t, err := d.itemOf(ctx, r)
	switch {
	case err != nil:
		return err
	case t.Hash != r.Hash:
		return fmt.Errorf("%s: the definition of %s changed since the request, and nothing was "+
			"decided: the agent has to ask again", d.action, inLine(r.Item().String()))
	case len(t.Definition) == 0:
		return fmt.Errorf("%s: %w", d.action, errNoText(t.ID))
	}
	showRequestReview(d.env.stderr, r, t)
	if v == request.Confirmed {
		return d.confirmRead(question, "arguments")
	}
	return d.confirmRead(question, "definition")
}
