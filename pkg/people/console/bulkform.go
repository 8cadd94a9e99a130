package console

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// itemOf returns the value of an item in a form: its id, and the hash and the record revision that
// the page shows.
func itemOf(id tool.ID, hash tool.Hash, rev int64) string {
	return inAddress(id) + " " + string(hash) + " " + strconv.FormatInt(rev, 10)
}

// parseItem reads what [itemOf] returned.
func (c *Console) parseItem(r *http.Request, s string) (decide.Item, error) {
	parts := strings.Split(s, " ")
	if len(parts) != 3 {
		return decide.Item{}, decide.Refuse(
			http.StatusBadRequest,
			"the form has an item that cannot be read; nothing was decided",
		)
	}
	id, err := tool.ParseID(parts[0])
	rev, number := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || number != nil || rev < 0 {
		return decide.Item{}, decide.Refuse(
			http.StatusBadRequest,
			"the form has an item that cannot be read; nothing was decided",
		)
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
	all    bool     // every item that the filter chooses
	groups []string // servers with a tick, or askedGroup: every item of theirs that the filter chooses
	items  []decide.Item
	note   string
	tell   bool
}

// readBulk returns the fields of the form of r. The caller has already parsed the form.
func (c *Console) readBulk(r *http.Request) (b bulkForm, err error) {
	form := r.PostForm
	query := maps.Clone(form)
	for _, name := range []string{"action", "all", groupField, itemField, noteField, "tell", "csrf", againField} {
		query.Del(name)
	}
	if b.filter, _, err = decide.ReadQuery(query, maxRows); err != nil {
		return b, err
	}
	b.action, b.all, b.groups = form.Get("action"), form.Get("all") != "", form[groupField]
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

// approves reports whether the decision approves definitions.
func (b bulkForm) approves() bool {
	return b.action == approval.ActionApprove || b.action == decide.ActionCarry
}

// maxChosen limits the items of one bulk page.
const maxChosen = 200

// chosen returns the current items of a form, up to maxChosen, and the number of the other items.
func (c *Console) chosen(r *http.Request, b bulkForm) (rows []decide.Row, rest int, err error) {
	if b.action == decide.ActionCarry {
		f := decide.Filter{
			Status: string(lock.PendingApproval),
			Server: b.filter.Server,
			For:    b.action,
		}
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
	seen := map[string]bool{}
	add := func(list []decide.Row) {
		for _, row := range list {
			switch {
			case seen[row.ID]:
			case len(rows) == maxChosen:
				rest++
			default:
				rows = append(rows, row)
			}
			seen[row.ID] = true
		}
	}
	for _, group := range b.groups[:min(len(b.groups), maxRows)] {
		list, err := c.chosenGroup(r, b, group, max(1, maxChosen-len(rows)))
		if err != nil {
			return nil, 0, err
		}
		add(list.Tools)
		rest += list.Total - len(list.Tools)
	}
	ids := make([]tool.ID, min(len(b.items), maxChosen))
	for i := range ids {
		ids[i] = b.items[i].ID
	}
	add(c.o.Service.Rows(r.Context(), ids))
	return rows, rest + len(b.items) - len(ids), nil
}

// chosenGroup returns the first items of a group.
func (c *Console) chosenGroup(
	r *http.Request,
	b bulkForm,
	group string,
	limit int,
) (decide.Page, error) {
	f := b.filter
	if f.For = b.action; group != askedGroup {
		f.Server = group
		return c.o.Service.List(r.Context(), f, decide.Paging{Limit: limit})
	}
	f.Sort = decide.ByRisk
	list, err := c.o.Service.List(r.Context(), f, decide.Paging{Limit: limit})
	list.Tools = slices.DeleteFunc(list.Tools, func(row decide.Row) bool { return row.Asked == 0 })
	list.Total = len(list.Tools)
	return list, err
}
