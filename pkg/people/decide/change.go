package decide

import "github.com/portcullis-mcp/portcullis/pkg/rules/tool"

// A Change is the difference between two definitions, as far as a program can describe it. Its
// texts come from the server.
type Change struct {
	Line  string       `json:"line" doc:"the change in one line"`
	Items []ChangeItem `json:"items" nullable:"false" doc:"the differences, at most 200"`
	More  int          `json:"more,omitempty" doc:"number of differences that are not in the field items"`
}

// A ChangeItem is one difference.
type ChangeItem struct {
	Op   string `json:"op" enum:"+,-,~" doc:"added, removed, changed"`
	What string `json:"what" doc:"parameter, argument, required, type, enum, default, bounds, description, tier, …"`
	Path string `json:"path,omitempty" doc:"path of the parameter, argument or result; absent: the difference is about the whole item"`
	Text string `json:"text,omitempty" doc:"the old and the new value, or what was added"`
	Risk string `json:"risk,omitempty" doc:"how the difference gives the item or its users more power"`
}

// Change returns the difference between two definitions. It computes each difference once.
func (d *Service) Change(before, now tool.Definition) *Change {
	c := d.changes.Summarize(before, now)
	out := &Change{Line: c.Line(), Items: make([]ChangeItem, len(c.Items)), More: c.More}
	for i, item := range c.Items {
		out.Items[i] = ChangeItem(item)
	}
	return out
}
