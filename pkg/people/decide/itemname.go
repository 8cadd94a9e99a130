package decide

import (
	"cmp"
	"context"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// An ItemName has the names of a tool, a prompt or a resource.
type ItemName struct {
	ID       string `json:"id" doc:"server:tool, server:prompt:name or server:resource:uri"`
	Kind     string `json:"kind" enum:"tool,prompt,resource"`
	Server   string `json:"server"`
	Name     string `json:"name" doc:"name of a tool or prompt, URI of a resource, or URI template"`
	Template bool   `json:"template,omitempty" doc:"it is a template of resources"`
	Address  string `json:"address" doc:"path of the item's page and of the item in this API, relative to the gateway's URL"`
}

// itemNameOf returns the names of an item. It reads from d only whether the item is a template.
func itemNameOf(id tool.ID, d tool.Definition) ItemName {
	return ItemName{id.String(), id.Kind.String(), id.Server, id.Name, d.Template, approval.Link("/", id)[len("/"):]}
}

// titleOf returns the title that a server gives an item in addition to its name or URI.
func titleOf(d tool.Definition) string {
	if d.Kind == tool.Resource {
		return cmp.Or(d.Title, d.Name)
	}
	return d.Title
}

// An address has the parts of the address of a resource.
type address struct{ server, sum string }

// addresses returns the index of each resource in the catalog, by the resource's address.
func (t *itemIndex) addresses() map[address]int {
	out := map[address]int{}
	for _, i := range t.items {
		if id := t.snap.ID(i); id.Kind == tool.Resource {
			out[address{id.Server, id.Sum()}] = i
		}
	}
	return out
}

// Find returns the id of the item with an address. For a resource, name is the SHA-256 of the URI,
// as in [approval.Link]. Find does not check whether a tool or a prompt exists.
func (d *Service) Find(ctx context.Context, kind tool.Kind, server, name string) (tool.ID, error) {
	if kind != tool.Resource {
		return tool.ID{Server: server, Name: name, Kind: kind}, nil
	}
	st := d.states.Load(ctx)
	v := st.View(d.o.Agent)
	if i, ok := d.itemIndex(st, v).resources()[address{server, name}]; ok {
		return v.ID(i), nil
	}
	records, err := d.approvals.Records(ctx, server) // the resource may no longer be listed
	if err != nil {
		return tool.ID{}, err
	}
	for _, r := range records {
		if id := r.ID(); id.Kind == tool.Resource && id.Sum() == name {
			return id, nil
		}
	}
	return tool.ID{}, errNoItem(kind)
}
