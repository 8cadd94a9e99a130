package console

import (
	"cmp"
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

// maxServers limits the servers in the filter. If there are more, the person types a name.
const maxServers = 150

// A toolsPage is the table of tools, prompts and resources that the filter chooses.
type toolsPage struct {
	Page
	Heading string
	Noun    string // for the listed items
	Filter  decide.Filter
	List    decide.Page
	Choices []choice
	Rows    []toolRow
	Groups  []rowGroup // the rows in groups
	Columns columns

	Upgrades []upgrade

	Ticked  bool   // every row is selected
	TickAll string // address of the page with every row selected
	pager
	Waits string // address of the list of all waiting items
}

// A choice is one filter of the table.
type choice struct {
	Name, Label, Value string
	Options            []option // none: a text field
	Hint               string   // for the text field; "": any
	List               string   // id of the page's suggestions for the text field; "": none
}

type option struct{ Value, Text string }

// A toolRow is one item of the table.
type toolRow struct {
	decide.Row
	Link  string
	Item  string // the item's value in a form
	Short string // the item's name, clipped
	Line  string // the most important fact
}

// A rowGroup is rows of the table with a heading.
type rowGroup struct {
	Name   string // of the server; "": the group has no heading, or Asked is set
	Asked  bool   // its items are those for which agents ask
	Value  string // value of the group's checkbox
	Link   string // list of the server's items
	Total  int    // how many items of the server the filter chooses
	Decide bool   // the caller decides about them
	Rows   []toolRow
}

// askedGroup is the value of the checkbox for the items for which agents ask. It is not the name of
// a server.
const askedGroup = "*"

// groupsOf returns the rows of a page in groups: the items for which agents ask, then each server.
// Without such an order, or with the items of only one server, there is one group without a
// heading.
func (p *toolsPage) groupsOf(here string) (out []rowGroup) {
	if !p.Filter.IsByServer() || p.Filter.Server != "" {
		return []rowGroup{{Rows: p.Rows}}
	}
	totals := map[string]int{}
	for _, s := range p.List.Facets.Server {
		totals[s.Value] = s.Tools
	}
	asks := p.Filter.IsQueue()
	for _, row := range p.Rows {
		g := rowGroup{Name: row.Server, Value: row.Server, Total: totals[row.Server]}
		if asks && row.Asked > 0 {
			g = rowGroup{Asked: true, Value: askedGroup}
		} else {
			f := p.Filter
			f.Server = row.Server
			g.Link = withQuery(here, f.Values())
		}
		if n := len(out); n == 0 || out[n-1].Value != g.Value {
			out = append(out, g)
		}
		last := &out[len(out)-1]
		last.Rows, last.Decide = append(last.Rows, row), last.Decide || p.MayDecide(row.Server)
	}
	return out
}

// columns says which columns the table has. If all rows have the same value, the page says it once
// above the table, and the table has no such column.
type columns struct {
	Status, Kind, Tier, Since, State bool
	Same                             bool // a column is missing
	Count                            int  // of the columns, with the checkbox and the name
}

// columnsOf returns the columns of the rows. If there is only one row, the table has all columns.
func (p *toolsPage) columnsOf() columns {
	differ := func(value func(toolRow) any) bool {
		other := func(r toolRow) bool { return value(r) != value(p.Rows[0]) }
		return len(p.Rows) == 1 || slices.ContainsFunc(p.Rows, other)
	}
	c := columns{
		Status: differ(func(r toolRow) any { return r.Status }),
		Kind:   p.List.Mixed && differ(func(r toolRow) any { return [2]any{r.Kind, r.Template} }),
		Tier:   differ(func(r toolRow) any { return [2]any{r.Tier, r.Unannotated} }),
		Since:  differ(func(r toolRow) any { return p.Time(r.Since).Text }),
		State:  differ(func(r toolRow) any { return r.State }),
	}
	c.Count = 2
	for _, shown := range []bool{c.Status, c.Kind, c.Tier, c.Since} {
		if shown {
			c.Count++
		}
	}
	c.Same = !c.Status || !c.Tier || !c.Since || !c.State || p.List.Mixed && !c.Kind
	return c
}

// nounOf returns the noun for items of a kind; the kind "" means several.
func nounOf(kind string) string { return cmp.Or(kind, "item") }

// kindOf returns the kind of all items; "": there are several.
func kindOf[E any](list []E, kind func(E) string) string {
	other := func(x E) bool { return kind(x) != kind(list[0]) }
	if len(list) == 0 || slices.ContainsFunc(list, other) {
		return ""
	}
	return kind(list[0])
}

// tools shows one page of the table.
func (c *Console) tools(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	others := append([]string{"tick"}, flashParameters...)
	f, paging, err := decide.ReadQuery(query, maxRows, others...)
	var list decide.Page
	paging.Limit = min(paging.Limit, maxRows)
	if err == nil {
		list, err = c.o.Service.List(r.Context(), f, paging)
	}
	if err != nil {
		c.failed(w, r, "tools", err)
		return
	}
	p := &toolsPage{Page: Page{Title: "Tools", Here: "tools"}, Ticked: query.Get("tick") == "page"}
	p.Choices = choices(f, list.Facets, list.Mixed)
	p.setCaller(r, c.o.Now())
	p.setList(rootOf(r), f, paging, list)
	c.setMessage(&p.Page, r)
	c.render(w, r, http.StatusOK, "tools", p)
}

// setList sets the table. The caller of the page must be set.
func (p *toolsPage) setList(root string, f decide.Filter, paging decide.Paging, list decide.Page) {
	p.Filter, p.List, p.Upgrades = f, list, upgradesOf(list)
	p.Heading, p.Noun = "Tools", nounOf(f.Kind)
	if list.Mixed {
		p.Heading = "Tools, prompts and resources"
	} else if f.Kind == "" {
		p.Noun = tool.Tool.String()
	}
	for _, row := range list.Tools {
		p.Rows = append(p.Rows, rowFor(root, row, f))
	}
	here := root + "admin/tools"
	if len(p.Rows) > 0 {
		p.Groups, p.Columns = p.groupsOf(here), p.columnsOf()
	}
	p.pager = pagerOf(here, f.Values(), paging.After, list.Next)
	p.TickAll = withQuery(here, f.Values(), "after", paging.After, "tick", "page")
	p.Waits = here + "?status=pending_approval"
}

// withQuery returns an address with a query: values, and more parameters in pairs.
func withQuery(address string, values url.Values, pairs ...string) string {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	if len(values) == 0 {
		return address
	}
	return address + "?" + values.Encode()
}

// queueOf returns the query of the queue that f chooses. For the zero filter the query is not
// empty, because an item's page without a query has the queue of waiting items.
func queueOf(f decide.Filter) url.Values {
	values := f.Values()
	if len(values) == 0 {
		values.Set("sort", decide.ByID)
	}
	return values
}

// toolLink returns the address of an item's page.
func toolLink(root string, id tool.ID, query url.Values) string {
	return withQuery(approval.Link(root[:len(root)-1], id), query)
}

func rowFor(root string, row decide.Row, f decide.Filter) toolRow {
	link := withQuery(root[:len(root)-1]+row.Address, queueOf(f))
	id, _ := tool.ParseID(row.ID) // an id of the catalog is valid
	return toolRow{row, link, itemOf(id, row.Hash, row.Rev), shorten(row.Name), lineOf(row)}
}

// lineOf returns the change of an item, or the beginning of its description.
func lineOf(row decide.Row) string {
	s := cmp.Or(row.Summary, row.Title)
	if row.Kind == string(tool.Resource) && row.Summary != "" { // the title says more than the URI
		s = row.Title + ": " + s
	}
	switch row.State {
	case decide.StateChanged:
		s = cmp.Or(row.Change, s)
	case decide.StateNew:
		s = strings.Join(slices.DeleteFunc([]string{row.Change, s}, text.Blank), " · ")
	}
	return shorten(s)
}

// choices returns the filters, and for each value the number of items that it would choose. If all
// items are tools, it omits the kind.
func choices(f decide.Filter, facets decide.Facets, mixed bool) (out []choice) {
	counted := func(name, label, chosen string, values []decide.Facet) choice {
		c := choice{Name: name, Label: label, Value: chosen, Options: []option{{"", "any"}}}
		if len(values) > maxServers {
			c.Options = nil
			return c
		}
		for _, v := range values {
			c.Options = append(c.Options, option{v.Value, words(v.Value) + " (" + strconv.Itoa(v.Tools) + ")"})
		}
		return c
	}
	servers := counted("server", "Server", f.Server, facets.Server)
	for i := range servers.Options[min(1, len(servers.Options)):] {
		servers.Options[i+1].Text = facets.Server[i].Value + " (" + strconv.Itoa(facets.Server[i].Tools) + ")" // a name keeps its underscores
	}
	if mixed || f.Kind != "" {
		out = append(out, counted("kind", "Kind", f.Kind, facets.Kind))
	}
	return append(out,
		counted("status", "Status", f.Status, facets.Status),
		counted("state", "Definition", f.State, facets.State),
		servers,
		counted("tier", "Tier", f.Tier, facets.Tier),
		counted("finding", "Finding", f.Finding, facets.Finding),
		choice{Name: "sort", Label: "Sort", Value: f.Sort, Options: []option{
			{"", "usual"}, {decide.ByRisk, "closest look first"}, {decide.ByID, "name"}, {decide.ByNewest, "newest first"}, {decide.ByOldest, "oldest first"},
		}},
	)
}
