package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// An auditPage shows the audit: who did what.
type auditPage struct {
	Page
	decide.AuditPage
	Choices []choice
	Rows    []auditRow
	pager
	CSV, JSON string // addresses of the same lines as files
}

// An auditRow is one line of the audit.
type auditRow struct {
	ISO, At        string
	Who, For       string // the person or agent; for an agent, its user; for a decision about an agent, the agent
	What, Detail   string
	Of, Link       string // the item, and its page; "": the line is not about an item
	From, Hash     string // prefixes of hashes
	Diff           string // address of the comparison; "": at least one text is not stored
	Request, Asked string // id of the line's request, and its page; "": none
	Note           string
	Source         string
}

// auditPages registers the page of the audit. The API serves the audit as a file.
func (c *Console) auditPages(mux *http.ServeMux, next http.Handler) {
	mux.Handle("GET /admin/audit", c.pageOr(next, c.audit))
}

// audit shows one page of the audit.
func (c *Console) audit(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	after, err := onlyAfter(r, decide.AuditParameters...)
	asked := decide.ReadAuditQuery(query)
	var f audit.Filter
	if err == nil {
		f, err = asked.Filter(c.o.Now())
	}
	p := &auditPage{Page: Page{Title: "Audit", Here: "audit"}}
	paging := decide.Paging{Limit: maxRows, After: after}
	if err == nil {
		p.AuditPage, err = c.o.Service.Audit(r.Context(), f, paging)
	}
	if err != nil {
		c.failed(w, r, "audit", err)
		return
	}
	v := c.o.Service.View(r.Context())
	for _, l := range p.Lines {
		p.Rows = append(p.Rows, auditRowOf(rootOf(r), v, l))
	}
	here := rootOf(r) + "admin/audit"
	p.Choices = auditChoices(asked)
	p.CSV, p.JSON = withQuery(here+".csv", asked.Values()), withQuery(here+".jsonl", asked.Values())
	p.pager = pagerOf(here, asked.Values(), after, p.Next)
	c.render(w, r, http.StatusOK, "audit", p)
}

// auditChoices returns the filters of the page, with their current values.
func auditChoices(q decide.AuditQuery) []choice {
	kinds := []option{{"", "any"}, {audit.KindCall, "calls"}, {audit.KindEvent, "deeds"}}
	return []choice{
		{Name: "actor", Label: "Who", Value: q.Actor}, {Name: "action", Label: "Action", Value: q.Action},
		{Name: "server", Label: "Server", Value: q.Server}, {Name: "tool", Label: "Tool", Value: q.Tool},
		{Name: "kind", Label: "Kind", Value: q.Kind, Options: kinds},
		{Name: "since", Label: "Since", Value: q.Since, Hint: "24h, 2026-11-22"}, {Name: "until", Label: "Until", Value: q.Until},
	}
}

func auditRowOf(root string, v *state.View, l audit.Line) auditRow {
	at := l.Time.UTC()
	row := auditRow{
		ISO: at.Format("2006-01-02T15:04:05.000Z"), At: at.Format("2006-01-02 15:04:05"),
		Who: shorten(l.Actor), What: shorten(itemEvent(v, l.Tool, l.Action, l.Hash)),
		Of: shorten(l.Tool), Hash: shortHash(l.Hash), From: shortHash(l.From),
		Note: l.Note, Source: shorten(l.Source),
	}
	if l.Kind == audit.KindCall {
		row.Who, row.For, row.Hash = shorten(l.Agent), shorten(l.Human), shortHash(l.Definition)
		row.What, row.Detail = callOutcome(l)
	}
	if kind, agent := l.About(); l.Tool == "" {
		row.Of = shorten(l.Subject)
	} else if kind == audit.AboutAgent {
		row.For = shorten(agent)
	}
	if l.Request != "" {
		row.Request = shorten(l.Request)
		row.Asked = root + "admin/requests/" + url.PathEscape(l.Request)
	}
	id, err := tool.ParseID(l.Tool)
	if err != nil || id.Kind != tool.Resource && tool.ValidName(id.Name) != nil {
		return row
	}
	row.Link = toolLink(root, id, nil)
	if l.From == "" || l.Hash == "" || l.From == l.Hash {
		return row
	}
	if i, ok := v.Find(id); ok && keeps(v.Record(i), l.From) && keeps(v.Record(i), l.Hash) {
		row.Diff = toolLink(root, id, url.Values{"from": {string(l.From)}, "to": {string(l.Hash)}})
	}
	return row
}

// keeps reports whether a record has the text of the definition with this hash.
func keeps(r *approval.Record, hash tool.Hash) bool {
	return r != nil && (r.CurrentHash == hash || r.ApprovedHash == hash)
}

// shortHash returns the short form of a hash, by which people recognize it.
func shortHash(h tool.Hash) string { return shorten(fmt.Sprintf("%.12s", h)) }

// callOutcome describes the outcome of a call and its details.
func callOutcome(l audit.Line) (what, detail string) {
	what, ok := map[string]string{
		audit.Allowed: "called", audit.Locked: "call refused: locked", audit.Tier: "call refused: another tier",
		audit.Scope: "call refused: not in the agent's scope", audit.Stopped: "call refused: stopped", audit.Refused: "call refused: faulty request",
	}[l.Decision]
	if !ok {
		what = shorten(l.Decision)
	}
	for _, s := range slices.Concat([]string{words(l.Status)}, l.Rules, []string{l.Outcome}) {
		if s != "" {
			detail += ", " + s
		}
	}
	if detail != "" {
		detail = shorten(detail[2:])
	}
	return what, detail
}
