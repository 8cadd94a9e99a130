package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// An itemName is an argument that names a tool, a prompt or a resource.
type itemName struct{ tool.ID }

var _ kong.MapperValue = (*itemName)(nil)

// Decode implements kong's reading of an argument.
func (n *itemName) Decode(c *kong.DecodeContext) error {
	var s string
	if err := c.Scan.PopValueInto("name", &s); err != nil {
		return err
	}
	id, err := tool.ParseID(s)
	if err != nil {
		return fmt.Errorf("%s names no tool: want server:tool, server:prompt:name or server:resource:uri, as portcullis tools lists them", text.Quote(s, 128))
	}
	n.ID = id
	return nil
}

// item returns the current state of an item. If there is no such item, the error names similar
// items.
func (g *gateway) item(
	ctx context.Context, env *environment, id tool.ID, action string,
) (client.Answer[decide.Tool], error) {
	t, err := g.Item(ctx, id, action)
	if client.IsNotFound(err) {
		err = g.notFound(ctx, env, id, action, err)
	}
	return t, err
}

// notFound returns err, which says that there is no such item, with similar names.
func (g *gateway) notFound(
	ctx context.Context, env *environment, id tool.ID, action string, err error,
) error {
	all, failed := g.list(ctx, env, decide.Filter{}, 0)
	if failed != nil {
		return err
	}
	if all.Total == 0 {
		why, err := g.emptyCatalog(ctx)
		if err != nil {
			return err
		}
		return fmt.Errorf("%s: there is no %s: %s", g.Command, inLine(id.String()), why)
	}
	names := make([]string, len(all.Tools))
	for i, r := range all.Tools {
		names[i] = r.ID
	}
	near := nearest(id.String(), names)
	switch {
	case len(near) > 0 && action != "":
		return fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
	case len(near) > 0:
		return fmt.Errorf("%s: there is no %s; did you mean %s?",
			g.Command, inLine(id.String()), strings.Join(near, " or "))
	case action != "":
		return err
	}
	return fmt.Errorf("%s: there is no %s; portcullis tools lists every one that is known",
		g.Command, inLine(id.String()))
}

// maxNear is the maximum number of similar names in an error about an unknown name.
const maxNear = 3

// nearest returns the names that are most similar to an unknown name, by their letters or by their
// last part.
func nearest(want string, names []string) (near []string) {
	type candidate struct {
		name string
		far  int
	}
	want = strings.ToLower(want[:min(len(want), 256)])
	_, last, _ := strings.Cut(want, ":")
	var all []candidate
	for _, name := range names {
		is := strings.ToLower(name[:min(len(name), 256)])
		_, isLast, _ := strings.Cut(is, ":")
		far := text.Distance(want, is)
		if last == isLast {
			far = 1
		}
		if far <= max(2, len(want)/4) {
			all = append(all, candidate{name, far})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.name, b.name))
	})
	for _, c := range all[:min(len(all), maxNear)] {
		near = append(near, inLine(c.name))
	}
	return near
}

// rowOf returns an item as a row of a list, with the fields that bulk decisions use.
func rowOf(t decide.Tool) decide.Row {
	row := decide.Row{
		ItemName: t.ItemName, State: decide.StateNew, Tier: t.Tier, Hash: t.Hash, TakesTwo: t.TakesTwo,
		Findings: len(t.Findings), Obstacle: t.Obstacle,
	}
	if r := t.Record; r != nil {
		row.Rev, row.Disabled = r.Rev, r.Disabled
		if r.State != approval.Pending {
			row.State = string(r.State)
		}
	}
	return row
}
