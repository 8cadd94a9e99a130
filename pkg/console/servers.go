package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/decide"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/text"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// maxSyncParts is how many servers a failed sync names.
const maxSyncParts = 20

// A serversPage is the list of the servers.
type serversPage struct {
	Page
	Servers []serverRow
	State   decide.Freshness
	CanSync bool
	Parts   []decide.Cause // of a sync that failed
	Rest    int            // parts that are left out
	First   string         // address of the first page; "": this is it
	More    string         // address of the next one; "": this is the last
}

// A serverRow is one server of the list.
type serverRow struct {
	decide.Server
	Link   string
	Tools  []statusCount
	Others []kindCounts
}

// kindCounts are how many prompts or resources of a server have which status.
type kindCounts struct {
	Kind, Link string
	Total      int
	Counts     []statusCount
}

// A statusCount leads to the items of a server with one status.
type statusCount struct {
	Status, Link string
	Tools        int
}

// A serverPage shows one server.
type serverPage struct {
	Page
	decide.ServerDetail
	All     string // address of its tools
	Counts  []statusCount
	Others  []kindCounts
	CanSync bool
}

// servers shows one page of the servers.
func (c *Console) servers(w http.ResponseWriter, r *http.Request) { c.serverList(w, r, nil) }

// serverList is servers, after a sync that failed.
func (c *Console) serverList(w http.ResponseWriter, r *http.Request, failed error) {
	after, err := onlyAfter(r, "sync", "new", "changed")
	root, status := rootOf(r), http.StatusOK
	p := &serversPage{Page: Page{Title: "Servers", Here: "servers"}, State: c.o.Desk.Freshness(r.Context()), CanSync: c.o.Desk.CanSync()}
	var next decide.Next
	var list []decide.Server
	if err == nil {
		list, next, err = c.o.Desk.Servers(r.Context(), decide.Paging{Limit: defaultPage, After: after})
	}
	if err != nil {
		c.failed(w, r, "servers", err)
		return
	}
	for _, s := range list {
		p.Servers = append(p.Servers, serverRow{s, root + "admin/servers/" + url.PathEscape(s.Name), countsOf(root, s.Name, toolKind(s), s.Tools), othersOf(root, s)})
	}
	if after != "" {
		p.First = root + "admin/servers"
	}
	if next.Next != "" {
		p.More = withQuery(root+"admin/servers", url.Values{}, "after", next.Next)
	}
	if failed != nil {
		e := c.o.Desk.Explain(r.Context(), "sync", failed)
		status, p.Problem = e.Status, sentence(e.Detail)
		p.Parts, p.Rest = e.Parts[:min(len(e.Parts), maxSyncParts)], max(0, len(e.Parts)-maxSyncParts)
	}
	p.Message = syncMessage(r)
	c.render(w, r, status, "servers", p)
}

// server shows one server.
func (c *Console) server(w http.ResponseWriter, r *http.Request) {
	s, err := c.o.Desk.Server(r.Context(), r.PathValue("server"))
	if err != nil {
		c.failed(w, r, "server", err)
		return
	}
	root := rootOf(r)
	c.render(w, r, http.StatusOK, "server", &serverPage{
		Page: Page{Title: s.Name, Here: "servers", Message: syncMessage(r)}, ServerDetail: s, CanSync: c.o.Desk.CanSync(),
		All:    withQuery(root+"admin/tools", url.Values{}, "server", s.Name, "kind", toolKind(s.Server)),
		Counts: countsOf(root, s.Name, toolKind(s.Server), s.Tools), Others: othersOf(root, s.Server),
	})
}

// sync asks every server for what it lists now, or has that started.
func (c *Console) sync(w http.ResponseWriter, r *http.Request) {
	report, err := c.o.Desk.Sync(r.Context())
	switch {
	case err != nil:
		c.serverList(w, r, err)
	case report.Pending:
		leadTo(w, http.StatusSeeOther, "./servers?sync=started")
	default:
		leadTo(w, http.StatusSeeOther, withQuery("./servers", url.Values{}, "sync", "done", "new", strconv.Itoa(report.New), "changed", strconv.Itoa(report.Changed)))
	}
}

// syncMessage says what a sync has done to which the address leads back.
func syncMessage(r *http.Request) string {
	query := r.URL.Query()
	if !fromHere(r) {
		return ""
	}
	switch query.Get("sync") {
	case "started":
		return "A sync was started elsewhere. It may take a minute; this page shows its result when it is read again after that."
	case "done":
		fresh, _ := strconv.Atoi(query.Get("new"))
		changed, _ := strconv.Atoi(query.Get("changed"))
		return "Every enabled server was asked: " + text.Count(fresh, "new item") + ", " + text.Count(changed, "changed one") + "."
	}
	return ""
}

// toolKind returns by which kind a list of the server's tools has to be narrowed; "": it has nothing else.
func toolKind(s decide.Server) string {
	if s.Prompts == nil && s.Resources == nil {
		return ""
	}
	return tool.Tool.String()
}

// othersOf returns what a server has beside tools.
func othersOf(root string, s decide.Server) (out []kindCounts) {
	for kind, counts := range map[tool.Kind]*lock.Counts{tool.Prompt: s.Prompts, tool.Resource: s.Resources} {
		if counts != nil {
			link := withQuery(root+"admin/tools", url.Values{}, "server", s.Name, "kind", string(kind))
			out = append(out, kindCounts{string(kind), link, counts.Callable + counts.Locked(), countsOf(root, s.Name, string(kind), *counts)})
		}
	}
	slices.SortFunc(out, func(a, b kindCounts) int { return strings.Compare(a.Kind, b.Kind) })
	return out
}

// countsOf returns how many of a server's items of a kind have which status, those that wait first.
func countsOf(root, server, kind string, counts lock.Counts) (out []statusCount) {
	for _, status := range decide.Statuses() {
		if n := decide.CountOf(counts, status); n > 0 {
			out = append(out, statusCount{status, withQuery(root+"admin/tools", url.Values{}, "server", server, "status", status, "kind", kind), n})
		}
	}
	return out
}
