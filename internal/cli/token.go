package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// A tokenCmd is portcullis token.
type tokenCmd struct {
	List   listTokensCmd   `cmd:"" default:"withargs" help:"Print the agent tokens."`
	Make   makeTokenCmd    `cmd:"" help:"Make an agent token."`
	Rotate rotateTokensCmd `cmd:"" help:"Replace the key of agent tokens."`
	Revoke revokeTokenCmd  `cmd:"" help:"Revoke an agent token."`
}

// Help implements kong's longer help.
func (tokenCmd) Help() string {
	return `Agent tokens are for programs without an issuer, at a gateway that runs with PORTCULLIS_AUTH=token. Examples:

  portcullis token
  TOKEN=$(portcullis token make --name ci --servers github,jira --tiers read --days 30)
  portcullis token revoke ci`
}

// A tokenList is a page of tokens.
type tokenList struct {
	Tokens []admin.AgentToken `json:"tokens"`
	Keys   *admin.TokenKeys   `json:"keys,omitempty"`
	decide.Next
}

// A listTokensCmd is portcullis token list.
type listTokensCmd struct {
	askFlags
	All bool `help:"Also those that are over: expired, or revoked."`
}

// Help implements kong's longer help.
func (listTokensCmd) Help() string {
	return `The text of a token is kept nowhere, so it is not printed. Examples:

  portcullis token list
  portcullis token list --all -o json`
}

// Run prints the tokens.
func (c listTokensCmd) Run(ctx context.Context, env *environment) error {
	g, err := c.view(ctx, env, "token list")
	if err != nil {
		return err
	}
	defer g.close()
	whole, err := tokenPage(ctx, g)
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
		return printJSON(env.stdout, tokenList{Tokens: tokens, Keys: whole.Keys})
	}
	if over := len(all) - len(tokens); over > 0 {
		fmt.Fprintf(env.stderr, "%s not shown, since over: --all shows them\n", text.Count(over, "token"))
	}
	printKeys(env.stderr, whole.Keys)
	if len(tokens) == 0 {
		fmt.Fprintln(env.stderr, "there is no token to show; portcullis token make makes one")
		return nil
	}
	return printed(env.stdout, func(w io.Writer) {
		t := newTable(w, "ID", "NAME", "STATUS", "KEY", "SERVERS", "TIERS", "TOOLSETS", "EXPIRES", "LAST USED", "MADE BY")
		for _, x := range tokens {
			used, role := "never", ""
			if !x.LastUsed.IsZero() {
				used = x.LastUsed.UTC().Format("2006-01-02 15:04")
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

// allTokens returns every token of a gateway, the oldest first.
func allTokens(ctx context.Context, g *gateway) ([]admin.AgentToken, error) {
	page, err := tokenPage(ctx, g)
	return page.Tokens, err
}

// tokenPage returns every token of a gateway, the oldest first, and how they stand to its keys.
func tokenPage(ctx context.Context, g *gateway) (all tokenList, err error) {
	query := url.Values{"limit": {"200"}}
	for {
		var page tokenList
		if err := g.read(ctx, "/admin/tokens", query, nil, &page); err != nil {
			return all, g.withoutTokens(err)
		}
		all.Tokens, all.Keys = append(all.Tokens, page.Tokens...), page.Keys
		if page.Next.Next == "" {
			slices.SortStableFunc(all.Tokens, func(a, b admin.AgentToken) int { return a.CreatedAt.Compare(b.CreatedAt) })
			return all, nil
		}
		query.Set("after", page.Next.Next)
	}
}

// withoutTokens says of the error of a gateway that takes no tokens how it would.
func (g *gateway) withoutTokens(err error) error {
	r, ok := errors.AsType[*refusal](err)
	if !ok || r.Status != http.StatusNotFound || !strings.Contains(r.Detail, "nothing here") {
		return err
	}
	who := "the gateway"
	if g.local != nil {
		who = "the gateway, as this shell's environment sets it up,"
	}
	return fmt.Errorf("%s: %s takes no agent tokens: it would with PORTCULLIS_AUTH=token set where it runs; docs/authentication.md has the steps. With PORTCULLIS_AUTH=none agents need no token", g.command, who)
}

// A makeTokenCmd is portcullis token make.
type makeTokenCmd struct {
	askFlags
	Name     string   `required:"" placeholder:"NAME" help:"Of the agent, which is token:NAME in rules, logs and the audit."`
	Servers  []string `placeholder:"NAME,…" help:"That it may see; '*' is every one. Needed, but with --admin."`
	Tiers    []string `default:"read" enum:"read,write,destructive,none" placeholder:"TIER,…" help:"That it may call: read, write, destructive; each stands for itself alone. none: it calls nothing."`
	Toolsets []string `placeholder:"NAME,…" help:"That bound it; without, nothing does."`
	Days     int      `default:"30" placeholder:"N" help:"After which it expires, 1 to 365."`
	Admin    bool     `help:"It may use the admin API, as an operator."`
}

// Help implements kong's longer help.
func (makeTokenCmd) Help() string {
	return `Its text is all that goes to standard output, and is kept nowhere. Examples:

  TOKEN=$(portcullis token make --name ci --servers github,jira)
  portcullis token make --name deploy --servers '*' --tiers read,write --days 7 > token.txt`
}

// Run makes a token.
func (c makeTokenCmd) Run(ctx context.Context, env *environment) error {
	if len(c.Servers) == 0 && !c.Admin {
		return errors.New("token make: --servers is missing: name the servers that it may see, or '*'; without one it sees nothing")
	}
	wish := map[string]any{"name": c.Name, "servers": append([]string{}, c.Servers...), "tiers": []string{}, "days": c.Days, "admin": c.Admin}
	for _, tier := range c.Tiers {
		if tier != "none" {
			wish["tiers"] = append(wish["tiers"].([]string), tier)
		}
	}
	if len(c.Toolsets) > 0 {
		wish["toolsets"] = c.Toolsets
	}
	g, err := c.open(ctx, env, "token make")
	if err != nil {
		return err
	}
	defer g.close()
	var a reply[struct {
		admin.AgentToken
		Token string
	}]
	if err := g.read(ctx, "/admin/tokens", nil, wish, &a); err != nil {
		return g.withoutTokens(err)
	}
	made := a.value
	fmt.Fprintf(env.stderr, "made token %s of %s: servers %s; tiers %s; until %s. Its text is shown this once:\n",
		inLine(made.ID), inLine(made.Name), inLine(joined(made.Servers)), inLine(joined(made.Tiers)), made.ExpiresAt.UTC().Format("2006-01-02"))
	if err := c.print(env.stdout, a.raw, func(w io.Writer) { fmt.Fprintln(w, inLine(made.Token)) }); err != nil {
		return fmt.Errorf("token make: its text could not be printed (%w) and is lost: portcullis token revoke %s ends it, then make another", err, inLine(made.ID))
	}
	return nil
}

// A revokeTokenCmd is portcullis token revoke.
type revokeTokenCmd struct {
	askFlags
	Token string `arg:"" help:"Its id, or its name if one live token alone has it."`
}

// Help implements kong's longer help.
func (revokeTokenCmd) Help() string {
	return `The next request that bears it is refused. There is no way back: make another token instead. Grants of people stay
with the name, and a later token of this name has them: the command prints each grant with the command that ends it. Example:

  portcullis token revoke ci`
}

// Run ends a token.
func (c revokeTokenCmd) Run(ctx context.Context, env *environment) error {
	g, err := c.open(ctx, env, "token revoke")
	if err != nil {
		return err
	}
	defer g.close()
	all, err := allTokens(ctx, g)
	if err != nil {
		return err
	}
	id := ""
	var same []string
	for _, t := range all {
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
	path := "/admin/tokens/" + url.PathEscape(id) + "/revoke"
	return callAt(ctx, g, c.askFlags, env, path, nil, struct{}{}, c.show)
}

// A revokedToken is the answer to revoking a token.
type revokedToken struct {
	admin.AgentToken
	decide.TokenGrants
}

// show prints what is revoked, and what a token of the same name still has.
func (c revokeTokenCmd) show(w io.Writer, t revokedToken) {
	fmt.Fprintf(w, "token %s of %s is revoked, by %s at %s; the next request that bears it is refused\n",
		inLine(t.ID), inLine(t.Name), inLine(t.RevokedBy), atMinute(t.RevokedAt))
	agent := inLine(identity.TokenAgent(t.Name))
	if t.Unread {
		fmt.Fprintf(w, "what is granted to %s cannot be read now, and a later token of this name has it: "+
			"portcullis requests --all%s lists it\n", agent, c.again())
	}
	if len(t.Granted) == 0 {
		return
	}
	fmt.Fprintf(w, "%s to %s did not end: every token of this name has what is granted, a later one too\n",
		text.Count(len(t.Granted), "grant"), agent)
	table := newTable(w, "GRANTED", "VERDICT", "UNTIL", "ENDS WITH")
	for _, g := range t.Granted {
		verdict := string(g.Verdict)
		if g.Paused != "" {
			verdict += ", not now: " + g.Paused
		}
		command := "portcullis requests revoke " + g.Request + c.again()
		table.row(g.Tool, verdict, atMinute(g.Ends), command)
	}
	table.end()
}
