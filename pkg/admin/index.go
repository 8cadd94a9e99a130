package admin

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/state"
)

// A statusLink leads to the tools with one status.
type statusLink struct {
	Status, Link string
	Count        int
	Here         bool
}

type pageServer struct {
	Name, Status, Message string
	Tools                 []pageTool
}

type pageTool struct{ Name, Status, Link string }

// A row is a line of the index: a server (tool < 0), or one of its tools under it.
type row struct {
	server, key string // rows are sorted by key
	tool        int
}

// toolStatuses are in the order in which people want to see them.
var toolStatuses = []string{
	string(lock.PendingApproval), string(lock.DisabledByUser), string(lock.DisabledByConfig), string(lock.ServerDisabled), string(lock.DisabledUnknown), callable,
}

// indexPage shows one page of the servers with their tools, or of the tools alone that have
// one status or one server.
func (a *api) indexPage(r *http.Request) (int, page) {
	query := r.URL.Query()
	status, server := query.Get("status"), query.Get("server")
	p := page{Title: "Portcullis", Root: rootOf(r)}
	if status != "" && !slices.Contains(toolStatuses, status) {
		p.Problem = "No tool can have this status."
		return http.StatusNotFound, p
	}
	v := a.states.Load(r.Context()).View(a.o.Agent)
	rows, next, err := cut(Paging{Limit: defaultPage, After: query.Get("after")}, "index", rowsOf(v, server, status), func(x row) string { return x.key })
	if e, ok := errors.AsType[*huma.ErrorModel](err); ok {
		p.Problem = e.Detail
		return e.Status, p
	}
	p.Statuses = statusLinks(v, p.Root, server, status)
	outcomes := map[string]Outcome{}
	for _, s := range v.Servers() {
		outcomes[s.Config.Name] = outcomeOf(s.Config.Name, s.Outcome)
	}
	for _, x := range rows {
		if n := len(p.Servers); n == 0 || p.Servers[n-1].Name != x.server {
			o := outcomes[x.server]
			p.Servers = append(p.Servers, pageServer{Name: x.server, Status: o.Status, Message: o.Message})
		}
		if x.tool >= 0 {
			under := &p.Servers[len(p.Servers)-1]
			id := v.ID(x.tool)
			under.Tools = append(under.Tools, pageTool{id.Name, statusText(v.Status(x.tool)), p.Root + "admin/tools/" + url.PathEscape(id.Server) + "/" + url.PathEscape(id.Name)})
		}
	}
	if next.Next != "" {
		p.Next = listLink(p.Root, server, status, next.Next)
	}
	if len(v.Servers()) == 0 {
		p.Problem = "There is no catalog yet, or no server is configured."
	}
	return http.StatusOK, p
}

// rowsOf returns the lines of the index. Where it is about some tools only, a server is a
// line of its own no more.
func rowsOf(v *state.View, server, status string) []row {
	var heads, rows []row
	for _, s := range v.Servers() {
		if name := s.Config.Name; status == "" && (server == "" || server == name) {
			heads = append(heads, row{name, name + ":", -1}) // before all its tools, whose ids go on from here
		}
	}
	slices.SortFunc(heads, func(x, y row) int { return cmp.Compare(x.key, y.key) })
	for _, i := range choose(v, server, status) {
		id := v.ID(i)
		key := id.String()
		for len(heads) > 0 && heads[0].key < key {
			rows, heads = append(rows, heads[0]), heads[1:]
		}
		rows = append(rows, row{id.Server, key, i})
	}
	return append(rows, heads...)
}

// statusLinks counts the tools by status.
func statusLinks(v *state.View, root, server, chosen string) []statusLink {
	counts := map[string]int{}
	for _, i := range choose(v, server, "") {
		counts[statusText(v.Status(i))]++
	}
	var out []statusLink
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
