package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// A choice chooses among tools, prompts and resources, as the parameters of their list do.
type choice struct {
	Query   string `short:"q" placeholder:"WORDS" help:"Only those with all these words in the id, the title, the description or the name of a parameter."`
	Server  string `placeholder:"NAME" help:"Only those of this server."`
	Status  string `enum:"${statuses}," default:"" placeholder:"STATUS" help:"Only those with this status: ${statuses_list}."`
	State   string `enum:"${states}," default:"" placeholder:"STATE" help:"Only those whose definition is in this state: ${states_list}."`
	Tier    string `enum:"${tiers}," default:"" placeholder:"TIER" help:"Only those of this tier: ${tiers_list}."`
	Kind    string `enum:"${kinds}," default:"" placeholder:"KIND" help:"Only these: ${kinds_list}."`
	Finding string `placeholder:"CODE" help:"Only those in which this was found: severe, any, none, or the code of a finding."`
	Mine    bool   `help:"Only those that you decide about."`
}

// listVars are what flags of a choice can be.
func listVars() kong.Vars {
	vars := kong.Vars{}
	for name, values := range map[string][]string{
		"statuses": decide.Statuses(), "states": decide.States(), "tiers": decide.Tiers(), "kinds": decide.Kinds(), "sorts": decide.Sorts(),
	} {
		vars[name], vars[name+"_list"] = strings.Join(values, ","), strings.Join(values, ", ")
	}
	return vars
}

// filter returns the choice as the API takes it.
func (c choice) filter() decide.Filter {
	f := decide.Filter{Q: c.Query, Server: c.Server, Status: c.Status, State: c.State, Tier: c.Tier, Kind: c.Kind, Finding: c.Finding}
	if c.Mine {
		f.Mine = "yes"
	}
	return f
}

// A listing is what the list of tools, prompts and resources has, all pages as one.
type listing struct {
	Rows   []decide.Row
	Total  int
	Facets decide.Facets

	Upgrades []decide.Upgrade

	answer map[string]json.RawMessage // of the API
	raw    []json.RawMessage          // the rows in it
}

// maxPage is how many rows the API lists at once.
const maxPage = 200

// list reads what the filter chooses: at most so many; 0: everything.
func (g *gateway) list(ctx context.Context, env *environment, f decide.Filter, most int) (*listing, error) {
	out := &listing{}
	query := f.Values()
	query.Set("limit", strconv.Itoa(maxPage))
	if most > 0 && most < maxPage {
		query.Set("limit", strconv.Itoa(most))
	}
	p := newProgress(env.stderr, env.terminal, "reading the list", "item")
	defer p.end()
	for {
		next, err := out.page(ctx, g, query)
		if err != nil || next == "" || most > 0 && len(out.Rows) >= most {
			return out, err
		}
		if len(out.Rows) <= maxPage {
			p.begin(out.Total)
		}
		p.step(len(out.Rows), "")
		query.Set("after", next)
		if left := most - len(out.Rows); most > 0 && left < maxPage {
			query.Set("limit", strconv.Itoa(left))
		}
	}
}

// page reads one more page.
func (l *listing) page(ctx context.Context, g *gateway, query url.Values) (next string, err error) {
	var answer map[string]json.RawMessage
	if err := g.read(ctx, "/admin/tools", query, nil, &answer); err != nil {
		return "", err
	}
	var rows []json.RawMessage
	for name, into := range map[string]any{"tools": &rows, "total": &l.Total, "facets": &l.Facets, "upgrades": &l.Upgrades, "next": &next} {
		if raw, ok := answer[name]; ok && err == nil {
			err = json.Unmarshal(raw, into)
		}
	}
	for _, raw := range rows {
		var row decide.Row
		if err == nil {
			err = json.Unmarshal(raw, &row)
		}
		l.Rows = append(l.Rows, row)
	}
	if err != nil {
		return "", fmt.Errorf("%s: the gateway's answer cannot be read: %w", g.command, err)
	}
	l.answer, l.raw = answer, append(l.raw, rows...)
	return next, nil
}

// json returns the answer of the API with the rows of all pages.
func (l *listing) json() any {
	out := maps.Clone(l.answer)
	if rows, err := json.Marshal(l.raw); err == nil && len(l.raw) > 0 {
		out["tools"] = rows
	}
	if ups, err := json.Marshal(l.Upgrades); err == nil && len(l.Upgrades) > 0 { // the first page alone has them
		out["upgrades"] = ups
	}
	return out
}
