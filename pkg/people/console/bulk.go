package console

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A bulkPage lists exactly the items to which one decision applies.
type bulkPage struct {
	Page
	Action    string
	Noun      string        // for the items on the page
	Filter    decide.Filter // the filter that chose the items
	Items     []bulkRow
	Unread    int  // items that the person has to open before an approval includes them
	SameTier  bool // no item has annotations, and the page says so once
	Out       []leftOut
	OutMore   int      // skipped items that the page does not list
	Rest      int      // chosen items that have no line on the page
	Groups    []string // "filesystem: 9 read, 3 destructive"
	NeedsNote bool
	Note      string
	Tell      bool
	Back      string
}

// A bulkRow is an item of a bulk page.
type bulkRow struct {
	toolRow
	Fold     string // address of the definition for the page
	IsUnread bool   // the decision skips it until the person opens its definition
	IsViewed bool   // the browser has shown its definition
}

// A leftOut is an item that the decision skips, and the reason.
type leftOut struct{ ID, Link, Why string }

// leftOutOf returns the line of an item that the decision skips, with the reason.
func leftOutOf(root string, id tool.ID, why string) leftOut {
	return leftOut{shownID(id), toolLink(root, id, queueOf(decide.Filter{})), why}
}

// bulkActions are the actions that can apply to several items together.
var bulkActions = []string{
	approval.ActionApprove,
	approval.ActionBlock,
	approval.ActionUndo,
	decide.ActionCarry,
}

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
func (c *Console) bulkConfirmation(
	w http.ResponseWriter,
	r *http.Request,
	status int,
	b bulkForm,
	problem string,
) {
	rows, rest, err := c.chosen(r, b)
	if err != nil {
		c.failed(w, r, "bulk", err)
		return
	}
	p := &bulkPage{Page: Page{Here: "tools", Problem: problem}, Action: b.action, Filter: b.filter}
	p.Note, p.Tell = firstOf(b.note, approval.MaxNote), b.tell
	kept := map[string][]decide.Row{}
	for n, row := range rows {
		if len(p.Items) == maxRows {
			p.Rest = len(rows) - n
			break
		}
		line, why := c.bulkRow(r, row, b)
		switch {
		case why == "":
			p.Items = append(p.Items, line)
			kept[row.Server] = append(kept[row.Server], row)
			p.NeedsNote = p.NeedsNote || b.approves() && len(row.Severe) > 0
			if line.IsUnread {
				p.Unread++
			}
		case len(p.Out) == maxRows:
			p.OutMore++
		default:
			p.Out = append(p.Out, leftOut{shorten(row.ID), line.Link, why})
		}
	}
	p.Rest += rest
	for _, server := range slices.Sorted(maps.Keys(kept)) {
		p.Groups = append(p.Groups, groupOf(server, kept[server]))
	}
	p.SameTier = len(p.Items) > 1 &&
		!slices.ContainsFunc(p.Items, func(row bulkRow) bool { return !row.Unannotated })
	p.Back = withQuery(rootOf(r)+"admin/tools", b.filter.Values())
	p.Noun = nounOf(
		cmp.Or(kindOf(p.Items, func(row bulkRow) string { return row.Kind }), b.filter.Kind),
	)
	p.Title = verb(b.action) + " several " + p.Noun + "s"
	c.render(w, r, status, "bulk", p)
}

// bulkRow returns the line of an item on the bulk page. why is the reason if the decision skips the
// item even if the person opens its definition.
func (c *Console) bulkRow(r *http.Request, row decide.Row, b bulkForm) (line bulkRow, why string) {
	shown := c.viewed(r).shownAs(row.Hash)
	line = bulkRow{toolRow: rowFor(rootOf(r), row, b.filter), IsViewed: shown != ""}
	line.Fold = withQuery(
		rootOf(r)[:len(rootOf(r))-1]+row.Address,
		url.Values{foldParameter: {string(row.Hash)}},
	)
	for _, item := range b.items { // a form that was sent late may name an older decision
		if b.action == approval.ActionUndo && item.ID == row.Facts.ID && item.Rev != row.Rev {
			return line, "Somebody has decided about it since, so this undo does not apply to it."
		}
	}
	o := row.Facts.Before(b.action, shown, true)
	switch {
	case o == nil || o.Code == decide.Severe:
	case o.Code == decide.NotShown:
		line.IsUnread = true
		if o = row.Facts.Before(b.action, decide.ShownOpened, true); o != nil &&
			o.Code != decide.Severe {
			return line, sentence(o.Detail)
		}
	default:
		return line, sentence(o.Detail)
	}
	return line, ""
}

// groupOf describes the selected items of a server: how many tools per tier, and how many prompts
// and resources.
func groupOf(server string, rows []decide.Row) string {
	counts, others, found, silent := map[tool.Tier]int{}, map[string]int{}, 0, 0
	for _, row := range rows {
		switch found += row.Findings; {
		case row.Kind != tool.Tool.String():
			others[row.Kind]++
		case row.Unannotated:
			silent++
		default:
			counts[row.Tier]++
		}
	}
	var parts []string
	for _, tier := range []tool.Tier{tool.Read, tool.Write, tool.Destructive} {
		if n := counts[tier]; n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+tier.String())
		}
	}
	if silent > 0 {
		parts = append(parts, strconv.Itoa(silent)+" not annotated")
	}
	for _, kind := range []tool.Kind{tool.Prompt, tool.Resource} {
		if n := others[string(kind)]; n > 0 {
			parts = append(parts, text.Count(n, string(kind)))
		}
	}
	if found > 0 {
		parts = append(parts, text.Count(found, "finding"))
	}
	return server + ": " + strings.Join(parts, ", ")
}

// verb returns an action as the first word of a heading.
func verb(action string) string {
	if action == decide.ActionCarry {
		action = approval.ActionApprove
	}
	return strings.ToUpper(action[:1]) + action[1:]
}
