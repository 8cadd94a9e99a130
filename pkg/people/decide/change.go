package decide

import "github.com/portcullis-mcp/portcullis/pkg/rules/tool"

// A Change is the difference between two definitions, as far as a program can describe it. Its
// texts come from the server.
type Change struct {
	Line  string       `json:"line" doc:"the change in one line"`
	Items []ChangeItem `json:"items" nullable:"false" doc:"the differences, at most 200"`
	More  int          `json:"more,omitempty" doc:"differences that are left out"`
}

// A ChangeItem is one difference.
type ChangeItem struct {
	Op   string `json:"op" enum:"+,-,~" doc:"added, removed, another one"`
	What string `json:"what" doc:"parameter, argument, required, type, enum, default, bounds, description, tier, …"`
	Path string `json:"path,omitempty" doc:"of the parameter, argument or result; absent: of the whole"`
	Text string `json:"text,omitempty" doc:"what it was and is, or what is new"`
	Risk string `json:"risk,omitempty" doc:"how it gives the item, or who uses it, more power"`
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
