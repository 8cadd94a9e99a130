package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// maxMessages limits the messages on the page of a server.
const maxMessages = 50

// A serverPage shows one server, with the table of its tools.
type serverPage struct {
	toolsPage
	decide.ServerDetail
	All      kindCounts // of tools
	Others   []kindCounts
	CanSync  bool
	Messages []decide.ServerMessage // the newest first; operators only
	Version  string                 // of the stored config, for buttons; "": none
	EditURL  string                 // of the config, if the gateway cannot write it

	// Elsewhere says where the loads and calls are counted, if not in this process.
	Elsewhere decide.ServerLogs
}

// serverPages registers the pages of servers.
func (c *Console) serverPages(mux *http.ServeMux, next http.Handler) {
	mux.Handle("GET /admin/servers", c.pageOr(next, c.servers))
	mux.Handle("GET /admin/servers/{server}", c.pageOr(next, c.server))
	mux.Handle("POST /admin/servers/{server}/sync", formOr(next, c.syncServer))
	mux.Handle("POST /admin/sync", formOr(next, c.sync))
	c.serverFormPages(mux, next)
	mux.Handle("GET /admin/policy", c.pageOr(next, c.policy))
	mux.Handle("POST /admin/policy", formOr(next, c.policy))
}

// server shows one server.
func (c *Console) server(w http.ResponseWriter, r *http.Request) {
	c.showServer(w, r, http.StatusOK, "")
}

// showServer shows one server, and a problem if it is not "".
func (c *Console) showServer(w http.ResponseWriter, r *http.Request, status int, problem string) {
	name := r.PathValue("server")
	s, err := c.o.Service.Server(r.Context(), name)
	p := &serverPage{ServerDetail: s, CanSync: c.o.Service.CanSync()}
	p.setCaller(r, c.o.Now())
	root := rootOf(r)
	if err == nil && hasItems(s.Server) {
		f, paging := decide.Filter{Server: name}, decide.Paging{Limit: maxRows}
		var list decide.Page
		list, err = c.o.Service.List(r.Context(), f, paging)
		p.setList(root, f, paging, list)
	}
	if err == nil && s.Activity != nil && p.MayOperate() {
		var said decide.ServerMessages
		said, err = c.o.Service.ServerMessages(r.Context(), name, "")
		p.Messages = said.Messages[max(0, len(said.Messages)-maxMessages):]
		slices.Reverse(p.Messages)
	}
	if err != nil {
		c.failed(w, r, "server", err)
		return
	}
	if s.Activity == nil {
		p.Elsewhere = c.o.Service.ServerLogs(name)
	}
	p.EditURL = c.o.Service.EditURL(r.Context())
	if p.MayOperate() && c.o.Service.CanEditConfig() {
		stored, err := c.o.Service.StoredConfig(r.Context())
		if err != nil { // the page has no buttons then
			_ = c.o.Service.Explain(r.Context(), "config", err)
		}
		p.Version = stored.Version
	}
	message, unrevoked := signOutMessage(r)
	written, unrecorded := configMessage(r)
	p.Title, p.Here = s.Name, "servers"
	p.Message = cmp.Or(serverSyncMessage(r, s), message, written)
	p.Problem = cmp.Or(problem, unrevoked, unrecorded)
	p.All, p.Others = toolsOf(root, s.Server), othersOf(root, s.Server)
	c.render(w, r, status, "server", p)
}

// hasItems reports whether the catalog has items of a server.
func hasItems(s decide.Server) bool {
	return s.Tools.Callable+s.Tools.Locked() > 0 || s.Prompts != nil || s.Resources != nil
}

// serverSyncMessage returns the result of the sync of a server that the address names.
func serverSyncMessage(r *http.Request, s decide.ServerDetail) string {
	text := syncMessage(r, "this server")
	isDone := text != "" && r.URL.Query().Get("sync") == "done"
	if isDone && s.Outcome.Status != string(outcome.Available) {
		return "The sync is done, and the server did not load. The last load says why."
	}
	return text
}

// syncServer loads one server now, or starts a sync elsewhere.
func (c *Console) syncServer(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("server")
	report, err := c.o.Service.SyncServer(r.Context(), name)
	if err != nil {
		e := c.o.Service.Explain(r.Context(), "sync", err)
		c.showServer(w, r, e.Status, sentence(e.Detail))
		return
	}
	redirectTo(w, http.StatusSeeOther, withQuery("../"+url.PathEscape(name), syncResult(report)))
}

// syncResult returns the result of a sync as a query, for [syncMessage].
func syncResult(report decide.SyncReport) url.Values {
	if report.Pending {
		return url.Values{"sync": {"started"}}
	}
	return url.Values{
		"sync":    {"done"},
		"new":     {strconv.Itoa(report.New + report.NewItems)},
		"changed": {strconv.Itoa(report.Changed + report.ChangedItems)},
	}
}
