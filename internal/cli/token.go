package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// A tokenCmd is portcullis token.
type tokenCmd struct {
	List   listTokensCmd   `cmd:"" reads:"token list" default:"withargs" help:"Print the agent tokens."`
	Make   makeTokenCmd    `cmd:"" help:"Make an agent token."`
	Rotate rotateTokensCmd `cmd:"" changes:"token rotate" help:"Replace the key of agent tokens."`
	Revoke revokeTokenCmd  `cmd:"" changes:"token revoke" help:"Revoke an agent token."`
}

// A listTokensCmd is portcullis token list.
type listTokensCmd struct {
	askFlags
	All bool `help:"Also print expired and revoked tokens."`
}

// Run prints the tokens.
func (c listTokensCmd) Run(ctx context.Context, env *environment, g *gateway) error {
	whole, err := g.Tokens(ctx)
	if err != nil {
		return err
	}
	all := whole.Tokens
	tokens := []admin.AgentToken{}
	for _, t := range all {
		if c.All || t.Status == "live" || t.Status == token.Void {
			tokens = append(tokens, t)
		}
	}
	if c.json() {
		return printJSON(env.stdout, admin.TokenList{Tokens: tokens, Keys: whole.Keys})
	}
	if over := len(all) - len(tokens); over > 0 {
		fmt.Fprintf(env.stderr, "%s not shown, because they ended: --all shows them\n",
			text.Count(over, "token"))
	}
	printKeys(env.stderr, whole.Keys)
	if len(tokens) == 0 {
		fmt.Fprintln(env.stderr, "there is no token to show; portcullis token make makes one")
		return nil
	}
	return printWhole(env.stdout, func(w io.Writer) {
		t := newTable(w, "ID", "NAME", "STATUS", "KEY", "SERVERS", "TIERS", "TOOLSETS", "EXPIRES", "LAST USED", "MADE BY")
		for _, x := range tokens {
			used, role := "never", ""
			if !x.LastUsed.IsZero() {
				used = atMinute(x.LastUsed)
			}
			if x.Admin {
				role = ", admin"
			}
			t.row(x.ID, x.Name, x.Status, cmp.Or(x.Key, "unknown"), joined(x.Servers), joined(x.Tiers)+role, cmp.Or(strings.Join(x.Toolsets, ","), "any"), x.ExpiresAt.UTC().Format("2006-01-02"), used, x.CreatedBy)
		}
		t.end()
	})
}

// joined returns a list for a column.
func joined(list []string) string { return cmp.Or(strings.Join(list, ","), "none") }

// isNone reports whether a tier is the word for no tier.
func isNone(tier string) bool { return tier == "none" }

// A makeTokenCmd is portcullis token make.
type makeTokenCmd struct {
	askFlags
	Name     string   `required:"" placeholder:"NAME" help:"Name of the agent, which is token:NAME in rules, logs and the audit."`
	Servers  []string `placeholder:"NAME,…" help:"Servers that the agent may see; '*' means all. Required without --admin."`
	Tiers    []string `default:"read" enum:"read,write,destructive,none" placeholder:"TIER,…" help:"Tiers that the agent may call: read, write, destructive. write does not include read; none allows no call."`
	Toolsets []string `placeholder:"NAME,…" help:"Toolsets that limit the agent; default: none."`
	Days     int      `default:"30" placeholder:"N" help:"Days until the token expires, 1 to 365."`
	Admin    bool     `help:"Let the agent use the admin API as an operator."`
}

// Run creates a token.
func (c makeTokenCmd) Run(ctx context.Context, env *environment) error {
	if len(c.Servers) == 0 && !c.Admin {
		return errors.New("token make: --servers is missing: name the servers that the agent may see, or '*' for all")
	}
	wish := token.Spec{
		Name: c.Name, Servers: append([]string{}, c.Servers...), Toolsets: c.Toolsets, Admin: c.Admin,
		Days: c.Days, Tiers: slices.DeleteFunc(append([]string{}, c.Tiers...), isNone),
	}
	g, err := c.open(ctx, env, "token make")
	if err != nil {
		return err
	}
	defer g.close()
	a, err := g.MakeToken(ctx, wish)
	if err != nil {
		return err
	}
	made := a.Value
	fmt.Fprintf(env.stderr, "made token %s of %s: servers %s; tiers %s; until %s. Its text is shown this once:\n",
		inLine(made.ID), inLine(made.Name), inLine(joined(made.Servers)), inLine(joined(made.Tiers)), made.ExpiresAt.UTC().Format("2006-01-02"))
	if err := c.print(env.stdout, a, func(w io.Writer) { fmt.Fprintln(w, inLine(made.Token)) }); err != nil {
		return fmt.Errorf("token make: its text could not be printed (%w) and is lost: portcullis token revoke %s ends it, then make another", err, inLine(made.ID))
	}
	return nil
}

// A revokeTokenCmd is portcullis token revoke.
type revokeTokenCmd struct {
	askFlags
	Token string `arg:"" help:"Its id, or its name if only one live token has it."`
}

// Run revokes a token.
func (c revokeTokenCmd) Run(ctx context.Context, env *environment, g *gateway) error {
	all, err := g.Tokens(ctx)
	if err != nil {
		return err
	}
	id := ""
	var same []string
	for _, t := range all.Tokens {
		switch {
		case t.ID == c.Token:
			id = t.ID
		case t.Name == c.Token && t.Status == "live":
			same = append(same, t.ID)
		}
	}
	switch {
	case id != "":
	case len(same) == 1:
		id = same[0]
	case len(same) > 1:
		return fmt.Errorf("token revoke: %s have the name %s; nothing was done: give an id of %s", text.Count(len(same), "live token"), text.Quote(c.Token, 80), text.Line(text.List(same, 20)))
	default:
		return fmt.Errorf("token revoke: no live token has the id or the name %s; nothing was done: portcullis token list --all prints them", text.Quote(c.Token, 80))
	}
	done, err := client.RevokeToken.Do(ctx, g.Client, nil, client.Empty{}, url.PathEscape(id))
	if err != nil {
		return err
	}
	return c.print(env.stdout, done, func(w io.Writer) { c.show(w, done.Value) })
}

// show prints the revoked token, and the remaining rights of a token with the same name.
func (c revokeTokenCmd) show(w io.Writer, t admin.RevokedToken) {
	fmt.Fprintf(w, "token %s of %s is revoked, by %s at %s; the next request that bears it is refused\n",
		inLine(t.ID), inLine(t.Name), inLine(t.RevokedBy), atMinute(t.RevokedAt))
	agent := inLine(identity.TokenAgent(t.Name))
	if t.Unread {
		fmt.Fprintf(w, "the grants of %s cannot be read now, and a later token of this name has "+
			"them: portcullis requests --all%s lists them\n", agent, c.gatewayArgs())
	}
	if len(t.Granted) == 0 {
		return
	}
	fmt.Fprintf(w, "%s to %s did not end: every token of this name keeps this access, even a "+
		"later one\n",
		text.Count(len(t.Granted), "grant"), agent)
	table := newTable(w, "GRANTED", "VERDICT", "UNTIL", "ENDS WITH")
	for _, g := range t.Granted {
		verdict := string(g.Verdict)
		if g.Paused != "" {
			verdict += ", not now: " + g.Paused
		}
		command := "portcullis requests revoke " + g.Request + c.gatewayArgs()
		table.row(g.Tool, verdict, atMinute(g.Ends), command)
	}
	table.end()
}
