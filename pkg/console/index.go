package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/decide"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/state"
)

// An indexPage shows the servers with their tools.
type indexPage struct {
	Page
	Servers  []pageServer
	Statuses []statusLink
	Next     string // address of the next page; "": this is the last one
}

// A statusLink leads to the tools with one status.
type statusLink struct {
	Status, Link string
	Count        int
	Here         bool
}

type pageServer struct {
	Name string
	decide.Outcome
	Tools []pageTool
}

type pageTool struct{ Name, Status, Link string }

// A row is a line of the index: a server (tool < 0), or one of its tools under it.
type row struct {
	server, key string // rows are sorted by key
	tool        int
}

// defaultPage is how many rows people see in a browser.
const defaultPage = 50

// toolStatuses are in the order in which people want to see them.
var toolStatuses = []string{
	string(lock.PendingApproval), string(lock.DisabledByUser), string(lock.DisabledByConfig), string(lock.ServerDisabled), string(lock.DisabledUnknown), decide.Callable,
}

// index shows one page of the servers with their tools, or of the tools alone that have one
// status or one server.
func (c *Console) index(w http.ResponseWriter, r *http.Request) {
	query, root := r.URL.Query(), rootOf(r)
	p := &indexPage{Page: Page{Title: "Inbox"}}
	if r.URL.Path != "/admin" {
		p.Title, p.Here = "Tools", "tools"
	}
	status, server := query.Get("status"), query.Get("server")
	if status != "" && !slices.Contains(toolStatuses, status) {
		c.problem(w, r, http.StatusNotFound, "No tool can have this status.")
		return
	}
	v := c.o.Desk.View(r.Context())
	rows, next, err := decide.Cut(decide.Paging{Limit: defaultPage, After: query.Get("after")}, "index", rowsOf(v, server, status), func(x row) string { return x.key })
	if err != nil {
		c.failed(w, r, "page", err)
		return
	}
	p.Statuses = statusLinks(v, root, server, status)
	outcomes := map[string]decide.Outcome{}
	for _, s := range v.Servers() {
		outcomes[s.Config.Name] = decide.OutcomeOf(s.Config.Name, s.Outcome)
	}
	for _, x := range rows {
		if n := len(p.Servers); n == 0 || p.Servers[n-1].Name != x.server {
			p.Servers = append(p.Servers, pageServer{Name: x.server, Outcome: outcomes[x.server]})
		}
		if x.tool >= 0 {
			under, id := &p.Servers[len(p.Servers)-1], v.ID(x.tool)
			under.Tools = append(under.Tools, pageTool{id.Name, decide.StatusText(v.Status(x.tool)), approval.Link(strings.TrimSuffix(root, "/"), id)})
		}
	}
	if next.Next != "" {
		p.Next = listLink(root, server, status, next.Next)
	}
	if len(v.Servers()) == 0 {
		p.Problem = "There is no catalog yet, or no server is configured."
	}
	c.render(w, r, http.StatusOK, "index", p)
}

// rowsOf returns the lines of the index. Where it is about some tools only, a server without one
// has no line.
func rowsOf(v *state.View, server, status string) (rows []row) {
	for _, s := range v.Servers() {
		if name := s.Config.Name; status == "" && (server == "" || server == name) {
			rows = append(rows, row{name, name + ":", -1}) // before all its tools, whose ids begin so
		}
	}
	for _, i := range decide.Choose(v, decide.Filter{Server: server, Status: status}) {
		rows = append(rows, row{v.ID(i).Server, v.ID(i).String(), i})
	}
	slices.SortFunc(rows, func(x, y row) int { return cmp.Compare(x.key, y.key) })
	return rows
}

// statusLinks counts the tools by status.
func statusLinks(v *state.View, root, server, chosen string) (out []statusLink) {
	counts := map[string]int{}
	for _, i := range decide.Choose(v, decide.Filter{Server: server}) {
		counts[decide.StatusText(v.Status(i))]++
	}
	for _, status := range toolStatuses {
		if counts[status] > 0 || status == chosen {
			out = append(out, statusLink{status, listLink(root, server, status, ""), counts[status], status == chosen})
		}
	}
	return out
}

// listLink returns the address of a page of the index.
func listLink(root, server, status, after string) string {
	query := url.Values{}
	for name, value := range map[string]string{"server": server, "status": status, "after": after} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return root + "admin/tools?" + query.Encode()
}
