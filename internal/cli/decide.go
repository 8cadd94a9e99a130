package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// decisionFlags are a person's inputs to a decision.
type decisionFlags struct {
	Hash string `placeholder:"HASH" help:"Hash of the definition that you have read, or its first 12 digits or more. If the definition has changed since, nothing is decided. For one item."`
	Rev  int64  `placeholder:"N" help:"Revision of the record that you have seen. If the record has changed since, nothing is decided. For one item."`
	Note string `placeholder:"TEXT" help:"Reason for the decision."`
	Tell bool   `help:"Show the note to agents."`
}

// A decideCmd is the common part of the commands that decide about one item or many.
type decideCmd struct {
	askFlags
	decisionFlags
	choice
	Items   []itemName `arg:"" optional:"" name:"name" help:"server:tool, server:prompt:name or server:resource:uri."`
	All     bool       `help:"All items that the flags above choose. The command prints them, and asks."`
	MaxTier string     `enum:"${tiers}," default:"" placeholder:"TIER" help:"Highest tier of the items that --all chooses."`
	Seen    string     `placeholder:"FILE" help:"File that lists items with their hashes: lines \"server:tool HASH\", as portcullis tools --hashes prints them, or its JSON. - is standard input."`
	Yes     bool       `help:"Decide without a question. It needs hashes: --hash, or --seen."`
}

// Validate implements kong's check of flags.
func (c decideCmd) Validate() error {
	ways := 0
	for _, is := range []bool{len(c.Items) > 0, c.All, c.Seen != ""} {
		if is {
			ways++
		}
	}
	switch {
	case ways == 0 && c.choice != (choice{}):
		return errors.New("--server and the other filters need --all: add --all, or name the items")
	case ways == 0:
		return errors.New("name what to decide about, such as server:tool, or choose with --all or --seen")
	case ways > 1:
		return errors.New("name the items, or choose them with --all or --seen: use one of the " +
			"three")
	case !c.All && c.choice != (choice{}):
		return errors.New("--server and the other filters work only with --all")
	case (c.Hash != "" || c.Rev != 0) && len(c.Items) != 1:
		return errors.New("--hash and --rev work for one item only: for many items use --seen")
	case c.Yes && c.Hash == "" && c.Seen == "":
		return errors.New("--yes needs hashes: --hash of one item, or --seen FILE with lines " +
			"\"server:tool HASH\", as portcullis tools --hashes prints them; portcullis " +
			"approvals apply uses the hashes of a lock file")
	}
	return c.gatewayFlags.Validate()
}

// Run decides.
func (c decideCmd) Run(
	ctx context.Context, command *kong.Context, env *environment, g *gateway,
) error {
	action := command.Selected().Name
	d := decider{gateway: g, env: env, askFlags: c.askFlags, action: action, decisionFlags: c.decisionFlags, sure: c.Yes}
	if len(c.Items) == 1 {
		return d.one(ctx, c.Items[0].ID)
	}
	if action == approval.ActionApprove {
		d.shown = decide.ShownPrinted
	}
	if c.Seen != "" {
		d.shown = decide.ShownSeen
	}
	return d.many(ctx, c)
}

// A decider carries out one kind of decision.
type decider struct {
	*gateway
	askFlags
	decisionFlags
	env    *environment
	action string
	sure   bool              // decide without a question
	shown  decide.ViewMethod // how the person saw the definitions of a bulk decision; "": they saw none
}

// one decides about one item.
func (d *decider) one(ctx context.Context, id tool.ID) error {
	a, err := d.item(ctx, d.env, id, d.action)
	if err != nil {
		return err
	}
	t := a.Value
	hash, err := d.expectedHash(t)
	if err != nil {
		return err
	}
	as := client.Decision{DecisionBody: admin.DecisionBody{Rev: d.Rev, Note: d.Note, Tell: d.Tell}}
	if d.action == approval.ActionApprove && hash == t.Hash {
		as.Shown = admin.ViewMethod(shownBy(d.Hash))
		if err := d.review(t, "Approve this definition, for all agents?"); err != nil {
			return err
		}
	}
	if d.Rev == 0 && t.Record != nil {
		as.Rev = t.Record.Rev
	}
	about := ""
	if d.action != approval.ActionDisable && d.action != approval.ActionEnable || d.Hash != "" {
		as.Hash, about = hash, " ("+shortHash(hash)+")"
	}
	return d.carryOut(ctx, id, as, func(now decide.Tool) string {
		return d.result(now) + about + ". " + stateText(now) + undoable(now)
	})
}

// shownBy returns how the person saw the definition that they approve. hash is the value of --hash.
func shownBy(hash string) decide.ViewMethod {
	if hash != "" {
		return decide.ShownHash
	}
	return decide.ShownPrinted
}

// carryOut sends a decision about one item, and prints the result.
func (d *decider) carryOut(
	ctx context.Context, id tool.ID, as client.Decision, say func(now decide.Tool) string,
) error {
	now, err := client.Decide.Do(ctx, d.Client, nil, as, client.ItemPath(id), d.action)
	if err != nil {
		return err
	}
	return d.printError(d.print(d.env.stdout, now, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %s\n", inLine(now.Value.ID), say(now.Value))
	}))
}

// printError wraps a print error, and says that the decision took effect.
func (d *decider) printError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: the decision took effect, but the result cannot be printed: %w", d.action, err)
}

// result returns what happened to an item. now is the item after the decision.
func (d *decider) result(now decide.Tool) string {
	if d.action == approval.ActionApprove && now.Record != nil && now.Record.Proposed != nil {
		return "approved by the first of two people"
	}
	return past(d.action)
}

// past returns the past participle of an action: "approved".
func past(action string) string {
	if action == decide.ActionCarry {
		return "carried over"
	}
	return strings.TrimSuffix(action, "e") + "ed"
}

// undoable returns how to undo a decision, or "" if nobody can undo it.
func undoable(now decide.Tool) string {
	if now.Record == nil || now.Record.UndoUntil.IsZero() {
		return ""
	}
	return "\nwithin 10 minutes, portcullis undo " + typed(now.ID) + " undoes this"
}

// stateText returns the state of an item, and how to unlock it.
func stateText(t decide.Tool) string {
	s := "It is " + t.Status + " now"
	r := t.Record
	if r == nil {
		return s
	}
	switch {
	case t.Status == decide.Callable:
		return s
	case r.Proposed != nil:
		return s + ": " + inLine(r.Proposed.By) + " approved it as the first of two people; a " +
			"second person must approve it at /admin, signed in with the issuer"
	case r.Disabled:
		return s + ": it is disabled until portcullis enable " + typed(t.ID)
	case r.State == approval.Blocked:
		return s + ": its definition is blocked until portcullis unblock " + typed(t.ID) + ", or approve"
	case t.Denial != nil:
		return s + ": " + denialOf(t.Denial)
	}
	return s
}

// denialOf returns a text about the rule that denies an item.
func denialOf(d *decide.Denial) string {
	s := "a rule denies it"
	if len(d.Rules) > 0 {
		s = text.List(d.Rules, 3) + " denies it"
	}
	if d.Reason != "" {
		s += " (" + text.Clip(text.Line(d.Reason), client.MaxDetail) + ")"
	}
	if d.Contact != "" {
		s += "; ask " + inLine(d.Contact)
	}
	return s
}

// review prints a definition, and asks whether to approve it. It returns the gateway's reason if
// the gateway would refuse the approval.
func (d *decider) review(t decide.Tool, question string) error {
	err := d.refusal(t.Obstacle)
	switch {
	case err != nil && t.Obstacle.Code != decide.Severe:
		return err
	case len(t.Definition) == 0:
		return fmt.Errorf("%s: %w", d.action, errNoText(t.ID))
	}
	showReview(d.env.stderr, t)
	if err != nil {
		return err
	}
	return d.confirmRead(question, "definition")
}

// errNoText returns the error for a definition without a known text. Nobody can read such a
// definition, so nobody may approve it.
func errNoText(id string) error {
	return fmt.Errorf("the text of %s is not known here, so nobody can read it, and nothing was "+
		"decided: portcullis sync reads it from its server", inLine(id))
}

// refusal returns whyNot as an error, or nil.
func (d *decider) refusal(o *decide.Obstruction) error {
	if why := d.whyNot(o); why != "" {
		return fmt.Errorf("%s: nothing was decided: %s", d.action, why)
	}
	return nil
}

// whyNot returns the gateway's reason against the decision, or "" if the gateway accepts the
// decision.
func (d *decider) whyNot(o *decide.Obstruction) string {
	if o == nil || o.Code == decide.Severe && !text.Blank(d.Note) {
		return ""
	}
	return text.Clip(text.Line(o.Detail), client.MaxDetail)
}

// minHash is the minimum number of digits that identify a hash.
const minHash = 12

// expectedHash returns the hash of the definition that the decision is about: the definition that
// --hash names, or without --hash the current definition. If --hash is only the start of a hash, it
// must match a known definition.
func (d *decider) expectedHash(t decide.Tool) (tool.Hash, error) {
	if d.Hash == "" {
		return t.Hash, nil
	}
	hashes := []tool.Hash{t.Hash}
	// the blocked definition may differ from the current one
	if d.action == approval.ActionUnblock && t.Record != nil {
		for _, v := range t.Record.Verdicts {
			hashes = append(hashes, v.Hash)
		}
	}
	switch h, err := hashNamed(d.Hash, hashes...); {
	case err != nil:
		return "", fmt.Errorf("%s: %w", d.action, err)
	case h != "":
		return h, nil
	}
	if h := tool.Hash(strings.ToLower(strings.TrimSpace(d.Hash))); len(h) == 64 {
		return h, nil // the gateway refuses the hash of another definition
	}
	return "", fmt.Errorf("%s: the definition of %s is now %s, which is not the --hash; nothing "+
		"was decided: portcullis diff %s shows the change", d.action, inLine(t.ID),
		shortHash(t.Hash), typed(t.ID))
}

// hashNamed returns the first of the hashes that begins with the value of --hash, or "".
func hashNamed(given string, hashes ...tool.Hash) (tool.Hash, error) {
	want := strings.ToLower(strings.TrimSpace(given))
	if len(want) < minHash || len(want) > 64 || strings.Trim(want, "0123456789abcdef") != "" {
		return "", fmt.Errorf("--hash %s is no hash, and nothing was decided: want its 64 digits of hex, or at least the first %d", text.Quote(given, 80), minHash)
	}
	for _, h := range hashes {
		if strings.HasPrefix(string(h), want) {
			return h, nil
		}
	}
	return "", nil
}

// confirmRead asks a question about the printed text. Without a terminal --hash answers it: the
// hash identifies the text that the person has read.
func (d *decider) confirmRead(question, what string) error {
	if d.sure || !d.env.terminal && d.Hash != "" {
		return nil
	}
	return d.confirm(question, "add --hash HASH, of the "+what+" that you have read. Nothing was "+
		"decided")
}

// confirm asks a question, and returns an error unless the answer is yes. instead is the hint
// that the error contains if nobody can answer.
func (d *decider) confirm(question, instead string) error {
	ok, err := d.env.agree(question, instead)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", d.action, err)
	case !ok:
		return errors.New(d.action + ": nothing was decided")
	}
	return nil
}

// shortHash returns the part of a hash that people compare.
func shortHash(h tool.Hash) string { return inLine(string(h[:min(len(h), minHash)])) }

// typed returns an id in shell syntax.
func typed(id string) string { return shellWord(text.Line(id)) }

// shellWord returns a word in shell syntax.
func shellWord(s string) string {
	if strings.ContainsAny(s, " \t\"'$`;&|<>*?()[]{}\\!#~") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}
