package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A serversPage is the list of the servers.
type serversPage struct {
	Page
	Servers []serverRow
	State   decide.Freshness
	CanSync bool
	Parts   []decide.Cause // of a failed sync
	Rest    int            // parts left out
	pager
}

// A serverRow is one server of the list.
type serverRow struct {
	decide.Server
	Link   string
	All    kindCounts // of tools
	Others []kindCounts
}

// kindCounts are the numbers of a server's items of a kind, in total and by status.
type kindCounts struct {
	Kind, Link string
	Total      int
	Counts     []statusCount
}

// A statusCount links to the items of a server with one status.
type statusCount struct {
	Status, Link string
	Tools        int
}

// servers shows one page of the servers.
func (c *Console) servers(w http.ResponseWriter, r *http.Request) { c.serverList(w, r, nil) }

// serverList shows one page of the servers, and the error of a failed sync if it is not nil.
func (c *Console) serverList(w http.ResponseWriter, r *http.Request, failed error) {
	after, err := onlyAfter(r, "sync", "new", "changed", "did", "audit")
	root, status := rootOf(r), http.StatusOK
	p := &serversPage{Page: Page{Title: "Servers", Here: "servers"}, State: c.o.Service.Freshness(r.Context()), CanSync: c.o.Service.CanSync()}
	var next decide.Next
	var list []decide.Server
	if err == nil {
		paging := decide.Paging{Limit: maxRows, After: after}
		list, next, err = c.o.Service.Servers(r.Context(), paging)
	}
	if err != nil {
		c.failed(w, r, "servers", err)
		return
	}
	for _, s := range list {
		p.Servers = append(p.Servers, serverRow{s, root + "admin/servers/" + url.PathEscape(s.Name), toolsOf(root, s), othersOf(root, s)})
	}
	p.pager = pagerOf(root+"admin/servers", url.Values{}, after, next)
	if failed != nil {
		e := c.o.Service.Explain(r.Context(), "sync", failed)
		status, p.Problem = e.Status, sentence(e.Detail)
		p.Parts, p.Rest = e.Parts[:min(len(e.Parts), maxRows)], max(0, len(e.Parts)-maxRows)
	}
	written, unrecorded := configMessage(r)
	p.Message = cmp.Or(syncMessage(r, "every enabled server"), written)
	p.Problem = cmp.Or(p.Problem, unrecorded)
	c.render(w, r, status, "servers", p)
}

// sync loads every server now, or starts a sync elsewhere.
func (c *Console) sync(w http.ResponseWriter, r *http.Request) {
	report, err := c.o.Service.Sync(r.Context())
	if err != nil {
		c.serverList(w, r, err)
		return
	}
	redirectTo(w, http.StatusSeeOther, withQuery("./servers", syncResult(report)))
}

// syncMessage returns the result of the sync that the address names. of says what was loaded.
func syncMessage(r *http.Request, of string) string {
	query := r.URL.Query()
	if !fromHere(r) {
		return ""
	}
	switch query.Get("sync") {
	case "started":
		return "A sync of every enabled server was started in another process. With many servers " +
			"it may take some minutes. Load this page again later to see the result."
	case "done":
		fresh, _ := strconv.Atoi(query.Get("new"))
		changed, _ := strconv.Atoi(query.Get("changed"))
		return fmt.Sprintf("The sync of %s is done: %s, %s.",
			of, text.Count(fresh, "new item"), text.Count(changed, "changed one"))
	}
	return ""
}

// toolsOf returns the counts of a server's tools. The links filter by kind only if the server has
// prompts or resources.
func toolsOf(root string, s decide.Server) kindCounts {
	if s.Prompts == nil && s.Resources == nil {
		return countsOf(root, s.Name, "", s.Tools)
	}
	return countsOf(root, s.Name, tool.Tool.String(), s.Tools)
}

// othersOf returns the counts of a server's prompts and resources.
func othersOf(root string, s decide.Server) (out []kindCounts) {
	if s.Prompts != nil {
		out = append(out, countsOf(root, s.Name, string(tool.Prompt), *s.Prompts))
	}
	if s.Resources != nil {
		out = append(out, countsOf(root, s.Name, string(tool.Resource), *s.Resources))
	}
	return out
}

// countsOf returns the counts of a server's items of a kind by status, with waiting items first.
// The kind "" means any.
func countsOf(root, server, kind string, counts lock.Counts) kindCounts {
	out := kindCounts{Kind: kind, Total: counts.Callable + counts.Locked(), Link: withQuery(root+"admin/tools", url.Values{}, "server", server, "kind", kind)}
	for _, status := range decide.Statuses() {
		if n := decide.CountOf(counts, status); n > 0 {
			out.Counts = append(out.Counts, statusCount{status, withQuery(root+"admin/tools", url.Values{}, "server", server, "status", status, "kind", kind), n})
		}
	}
	return out
}
