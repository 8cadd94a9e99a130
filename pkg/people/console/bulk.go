package console

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A bulkPage lists exactly the items to which one decision applies.
type bulkPage struct {
	Page
	Action    string
	Noun      string        // for the items on the page
	Filter    decide.Filter // the filter that chose the items
	Items     []toolRow
	Out       []leftOut
	OutMore   int      // skipped items that the page does not list
	Rest      int      // chosen items that have no line on the page
	Groups    []string // "filesystem: 9 read, 3 destructive"
	NeedsNote bool
	Note      string
	Tell      bool
	Back      string
}

// A leftOut is an item that the decision skips, and the reason.
type leftOut struct{ ID, Link, Why string }

// leftOutOf returns the line of an item that the decision skips, with the reason.
func leftOutOf(root string, id tool.ID, why string) leftOut {
	return leftOut{shownID(id), toolLink(root, id, queueOf(decide.Filter{})), why}
}

// itemOf returns the value of an item in a form: its id, and the hash and the record revision that
// the page shows.
func itemOf(row decide.Row) string {
	id, _ := tool.ParseID(row.ID) // an id of the catalog is valid
	return inAddress(id) + " " + string(row.Hash) + " " + strconv.FormatInt(row.Rev, 10)
}

// parseItem reads what [itemOf] returned.
func (c *Console) parseItem(r *http.Request, s string) (decide.Item, error) {
	parts := strings.Split(s, " ")
	if len(parts) != 3 {
		return decide.Item{}, decide.Refuse(http.StatusBadRequest, "the form has an item that cannot be read; nothing was decided")
	}
	id, err := tool.ParseID(parts[0])
	rev, number := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || number != nil || rev < 0 {
		return decide.Item{}, decide.Refuse(http.StatusBadRequest, "the form has an item that cannot be read; nothing was decided")
	}
	// The service reports an item that does not exist.
	if found, err := c.addressed(r, parts[0]); err == nil {
		id = found
	}
	return decide.Item{ID: id, Hash: tool.Hash(parts[1]), Rev: rev}, nil
}

// bulkForm has the fields that both forms about several items share.
type bulkForm struct {
	action string
	filter decide.Filter
	all    bool // every item that the filter chooses
	items  []decide.Item
	note   string
	tell   bool
}

// readBulk returns the fields of the form of r. The caller has already parsed the form.
func (c *Console) readBulk(r *http.Request) (b bulkForm, err error) {
	form := r.PostForm
	query := maps.Clone(form)
	for _, name := range []string{"action", "all", itemField, noteField, "tell", "csrf", againField} {
		query.Del(name)
	}
	if b.filter, _, err = decide.ReadQuery(query, maxRows); err != nil {
		return b, err
	}
	b.action, b.all = form.Get("action"), form.Get("all") != ""
	b.note, b.tell = form.Get(noteField), form.Get("tell") != ""
	if !slices.Contains(bulkActions, b.action) {
		return b, decide.Refuse(http.StatusBadRequest, "the form names no action")
	}
	for _, s := range form[itemField] {
		item, err := c.parseItem(r, s)
		if err != nil {
			return b, err
		}
		b.items = append(b.items, item)
	}
	return b, nil
}

// bulkActions are the actions that can apply to several items together.
var bulkActions = []string{approval.ActionApprove, approval.ActionBlock, decide.ActionCarry}

// bulkPath is the address that answers a selection with its bulk page.
const bulkPath = "/admin/tools/bulk"

// bulkAgain shows the bulk page of a form that was sent too late.
func (c *Console) bulkAgain(w http.ResponseWriter, r *http.Request) {
	if lateOf(r) == nil {
		redirectTo(w, http.StatusSeeOther, "../tools")
		return
	}
	c.bulk(w, r)
}

// bulk shows the bulk page. It decides nothing.
func (c *Console) bulk(w http.ResponseWriter, r *http.Request) {
	b, err := c.readBulk(r)
	if err != nil {
		c.failed(w, r, "bulk", err)
		return
	}
	c.bulkConfirmation(w, r, http.StatusOK, b, "")
}

// bulkConfirmation writes the bulk page. problem says why nothing was decided.
func (c *Console) bulkConfirmation(w http.ResponseWriter, r *http.Request, status int, b bulkForm, problem string) {
	rows, rest, err := c.chosen(r, b)
	if err != nil {
		c.failed(w, r, "bulk", err)
		return
	}
	p := &bulkPage{Page: Page{Here: "tools", Problem: problem}, Action: b.action, Filter: b.filter}
	p.Note, p.Tell = firstOf(b.note, approval.MaxNote), b.tell
	root, opened, kept := rootOf(r), c.viewed(r), map[string][]decide.Row{}
	for n, row := range rows {
		line := rowFor(root, row, b.filter)
		o := row.Facts.Before(b.action, opened.shownAs(row.Hash), true)
		if o != nil && o.Code != decide.Severe {
			if len(p.Out) == maxRows {
				p.OutMore++
				continue
			}
			p.Out = append(p.Out, leftOut{shorten(row.ID), line.Link, sentence(o.Detail)})
			continue
		}
		if len(p.Items) == maxRows {
			p.Rest = len(rows) - n
			break
		}
		p.Items = append(p.Items, line)
		kept[row.Server] = append(kept[row.Server], row)
		p.NeedsNote = p.NeedsNote || o != nil
	}
	p.Rest += rest
	for _, server := range slices.Sorted(maps.Keys(kept)) {
		p.Groups = append(p.Groups, groupOf(server, kept[server]))
	}
	p.Back = withQuery(root+"admin/tools", b.filter.Values())
	p.Noun = nounOf(cmp.Or(kindOf(p.Items), b.filter.Kind))
	p.Title = verb(b.action) + " several " + p.Noun + "s"
	c.render(w, r, status, "bulk", p)
}

// maxChosen limits the items of one bulk page.
const maxChosen = 200

// chosen returns the current items of a form, up to maxChosen, and the number of the other items.
func (c *Console) chosen(r *http.Request, b bulkForm) (rows []decide.Row, rest int, err error) {
	if b.action == decide.ActionCarry {
		f := decide.Filter{Status: string(lock.PendingApproval), Server: b.filter.Server, For: b.action}
		list, err := c.o.Service.List(r.Context(), f, decide.Paging{Limit: 1})
		for _, up := range list.Upgrades {
			rows = append(rows, up.Tools...)
		}
		n := min(len(rows), maxChosen)
		return rows[:n], len(rows) - n, err
	}
	if b.all {
		f := b.filter
		f.For = b.action
		list, err := c.o.Service.List(r.Context(), f, decide.Paging{Limit: maxChosen})
		return list.Tools, list.Total - len(list.Tools), err
	}
	ids := make([]tool.ID, len(b.items))
	for i, item := range b.items {
		ids[i] = item.ID
	}
	rows = c.o.Service.Rows(r.Context(), ids[:min(len(ids), maxChosen)])
	return rows, max(0, len(ids)-maxChosen), nil
}

// groupOf describes the selected items of a server: how many tools per tier, and how many prompts
// and resources.
func groupOf(server string, rows []decide.Row) string {
	counts, others, found := map[tool.Tier]int{}, map[string]int{}, 0
	for _, row := range rows {
		if found += row.Findings; row.Kind == tool.Tool.String() {
			counts[row.Tier]++
		} else {
			others[row.Kind]++
		}
	}
	var parts []string
	for _, tier := range []tool.Tier{tool.Read, tool.Write, tool.Destructive} {
		if n := counts[tier]; n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+tier.String())
		}
	}
	for _, kind := range []tool.Kind{tool.Prompt, tool.Resource} {
		if n := others[string(kind)]; n > 0 {
			parts = append(parts, text.Count(n, string(kind)))
		}
	}
	return server + ": " + strings.Join(append(parts, text.Count(found, "finding")), ", ")
}

// verb returns an action as the first word of a heading.
func verb(action string) string {
	if action == decide.ActionCarry {
		action = approval.ActionApprove
	}
	return strings.ToUpper(action[:1]) + action[1:]
}

// A donePage lists the outcome for each item of a bulk page.
type donePage struct {
	Page
	Action string
	Done   []leftOut
	Failed []leftOut
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
		c.bulkConfirmation(w, r, http.StatusUnprocessableEntity, b, "The form has no items, so "+
			"nothing was decided.")
		return
	}
	items := c.shownTo(r, b.items)
	if text.Blank(b.note) && c.anySevere(r, b.action, items) {
		c.bulkConfirmation(w, r, http.StatusUnprocessableEntity, b, "Nothing was decided: one of "+
			"these has a severe finding. To approve it, say why in the note. Or remove it from "+
			"the selection.")
		return
	}
	p := &donePage{Page: Page{Title: "Result", Here: "tools"}, Action: b.action}
	root := rootOf(r)
	p.Back = withQuery(root+"admin/tools", b.filter.Values())
	results, err := c.o.Service.DecideAll(r.Context(), decide.Decision{Action: b.action, Note: b.note, Tell: b.tell}, items)
	if err != nil {
		c.failed(w, r, "bulk", err)
		return
	}
	kind, halves := "", 0
	for i, result := range results {
		if k := items[i].ID.Kind.String(); i == 0 {
			kind = k
		} else if k != kind {
			kind = ""
		}
		if result.Err != nil {
			p.Failed = append(p.Failed, leftOutOf(root, items[i].ID, sentence(result.Err.Detail)))
		} else {
			done := leftOutOf(root, items[i].ID, result.Tool.Status)
			if b.action != approval.ActionBlock && result.Tool.Record.Proposed != nil {
				done.Why, halves = "", halves+1 // approved by the first of two people
			}
			p.Done = append(p.Done, done)
		}
	}
	status := http.StatusOK
	if len(p.Done) == 0 {
		status = http.StatusConflict
		p.Problem = "Nothing was decided."
	} else {
		p.Message = pastTense(b.action) + " " + text.Count(len(p.Done), nounOf(kind)) + "."
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
	return slices.ContainsFunc(c.o.Service.Rows(r.Context(), slices.Collect(maps.Keys(seen))), func(row decide.Row) bool {
		item := seen[row.Facts.ID]
		o := row.Facts.Before(action, item.Shown, true)
		return row.Hash == item.Hash && o != nil && o.Code == decide.Severe
	})
}
