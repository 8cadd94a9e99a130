package console

import (
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A donePage lists the outcome for each item of a bulk page.
type donePage struct {
	Page
	Action string
	Noun   string
	Done   []leftOut
	Failed []leftOut
	Filter decide.Filter
	Revert []string // items of the form that reverts the decisions
	Again  []string // items of the form that shows the failed items on a bulk page
	Note   string
	Back   string
}

// decideAll decides about the items of a bulk page. If the browser sends the form twice, the second
// form has no effect, because every item has a new revision.
func (c *Console) decideAll(w http.ResponseWriter, r *http.Request) {
	b, err := c.readBulk(r)
	if err != nil {
		c.failed(w, r, "bulk", err)
		return
	}
	if len(b.items) == 0 {
		c.bulkConfirmation(w, r, http.StatusUnprocessableEntity, b, "Nothing was decided: no "+
			"item was ticked.")
		return
	}
	items := c.shownTo(r, b.items)
	if text.Blank(b.note) && c.anySevere(r, b.action, items) {
		c.bulkConfirmation(w, r, http.StatusUnprocessableEntity, b, "Nothing was decided: one of "+
			"these has a severe finding. To approve it, say why in the note. Or untick it.")
		return
	}
	results, err := c.o.Service.DecideAll(
		r.Context(),
		decide.Decision{Action: b.action, Note: b.note, Tell: b.tell},
		items,
	)
	if err != nil {
		c.failed(w, r, "bulk", err)
		return
	}
	c.showDone(w, r, b, items, results)
}

// showDone writes the page with the results of a decision about several items.
func (c *Console) showDone(
	w http.ResponseWriter,
	r *http.Request,
	b bulkForm,
	items []decide.Item,
	results []decide.Result,
) {
	root := rootOf(r)
	p := &donePage{Page: Page{Title: "Result", Here: "tools"}, Action: b.action, Filter: b.filter}
	p.Back = withQuery(root+"admin/tools", b.filter.Values())
	p.Note = firstOf(b.note, approval.MaxNote)
	p.Noun = nounOf(kindOf(items, func(item decide.Item) string { return item.ID.Kind.String() }))
	halves := 0
	for i, result := range results {
		id := items[i].ID
		if result.Err != nil {
			p.Failed = append(p.Failed, leftOutOf(root, id, sentence(result.Err.Detail)))
			p.Again = append(p.Again, itemOf(id, items[i].Hash, items[i].Rev))
			continue
		}
		record, done := result.Tool.Record, leftOutOf(root, id, result.Tool.Status)
		if b.approves() && record.Proposed != nil {
			done.Why, halves = "", halves+1 // approved by the first of two people
		}
		p.Done = append(p.Done, done)
		if b.action != approval.ActionUndo && !record.UndoUntil.IsZero() {
			p.Revert = append(p.Revert, itemOf(id, result.Tool.Hash, record.Rev))
		}
	}
	status := http.StatusOK
	if len(p.Done) == 0 {
		status, p.Problem = http.StatusConflict, "Nothing was decided."
		if b.action == approval.ActionUndo {
			p.Problem = "Nothing was undone."
		}
	} else {
		p.Message = pastTense(b.action) + " " + text.Count(len(p.Done), p.Noun) + "."
		if n := len(p.Failed); n > 0 {
			p.Message += " Skipped " + text.Count(n, nounOf("")) + ", for the reasons below."
		}
		if halves > 0 {
			p.Message += " For " + strconv.Itoa(halves) + " of them, yours is the first of two " +
				"approvals: another person must approve too."
		}
	}
	c.render(w, r, status, "done", p)
}

// shownTo returns the items, and notes for each whether this browser has opened its definition.
func (c *Console) shownTo(r *http.Request, items []decide.Item) []decide.Item {
	opened, out := c.viewed(r), slices.Clone(items)
	for i, item := range out {
		out[i].Shown = opened.shownAs(item.Hash)
		if item.Rev == 0 { // the page showed no record, so an existing record is newer
			out[i].Rev = -1
		}
	}
	return out
}

// anySevere reports whether the service refuses one of the items only because the note is missing.
func (c *Console) anySevere(r *http.Request, action string, items []decide.Item) bool {
	seen := map[tool.ID]decide.Item{}
	for _, item := range items {
		seen[item.ID] = item
	}
	return slices.ContainsFunc(
		c.o.Service.Rows(r.Context(), slices.Collect(maps.Keys(seen))),
		func(row decide.Row) bool {
			item := seen[row.Facts.ID]
			o := row.Facts.Before(action, item.Shown, true)
			return row.Hash == item.Hash && o != nil && o.Code == decide.Severe
		},
	)
}
