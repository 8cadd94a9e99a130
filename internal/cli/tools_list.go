package cli

import (
	"context"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// A choice selects tools, prompts and resources. Its fields are query parameters of /admin/tools.
type choice struct {
	Query   string `short:"q" placeholder:"WORDS" help:"Only items with all these words in the id, the title, the description or the name of a parameter."`
	Server  string `placeholder:"NAME" help:"Only items of this server."`
	Status  string `enum:"${statuses}," default:"" placeholder:"STATUS" help:"Only items with this status: ${statuses_list}."`
	State   string `enum:"${states}," default:"" placeholder:"STATE" help:"Only items whose definition is in this state: ${states_list}."`
	Tier    string `enum:"${tiers}," default:"" placeholder:"TIER" help:"Only items of this tier: ${tiers_list}."`
	Kind    string `enum:"${kinds}," default:"" placeholder:"KIND" help:"Only these: ${kinds_list}."`
	Finding string `placeholder:"CODE" help:"Only items with this finding: severe, any, none, or the code of a finding."`
	Mine    bool   `help:"Only items that you decide about."`
}

// filter returns the choice in the API's form.
func (c choice) filter() decide.Filter {
	f := decide.Filter{Q: c.Query, Server: c.Server, Status: c.Status, State: c.State, Tier: c.Tier, Kind: c.Kind, Finding: c.Finding}
	if c.Mine {
		f.Mine = "yes"
	}
	return f
}

// list reads at most limit items that the filter matches, or all if limit is 0.
func (g *gateway) list(ctx context.Context, env *environment, f decide.Filter, limit int) (*client.List, error) {
	p := newProgress(env.stderr, env.terminal, "reading the list", "item")
	defer p.end()
	begun := false
	return g.List(ctx, f, limit, func(n, total int) {
		if !begun {
			p.begin(total)
		}
		begun = true
		p.step(n, "")
	})
}
