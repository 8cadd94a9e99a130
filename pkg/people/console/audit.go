package console

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Limits of the page of the audit.
const (
	maxNames      = 100 // suggestions for a filter
	maxLinkedName = 256 // bytes of a name in a link; the id of an agent fits
	checkParam    = "check"
)

// An auditPage shows the audit: who did what.
type auditPage struct {
	Page
	decide.AuditPage
	Choices []choice
	Rows    []auditRow
	pager
	CSV, JSON string // addresses of the same lines as files

	WithSyncs  bool
	Syncs      string // address of the page with, or without, the lines of syncs
	Names      []string
	Actions    []string
	Servers    []string
	FourEyes   string // which definitions need two people
	Days       string // the days of the page that have files; "": none
	Check, Zip string // addresses of the check of these days, and of their archive
	Checked    *audit.Chain
	Follow     string // address of the stream of new lines; "": the page cannot follow them
	Links      []decide.CallLink
	LogQuery   string // for the lines of calls, with this filter
}

// An auditRow is one line of the audit, or all lines of a sync about a server.
type auditRow struct {
	ID             string // identifies the line among the lines of a page
	ISO, At        string
	Who, WhoLink   string // the person or agent, and the page of the agent
	Client         string // the client that the agent's token names
	For, ForLink   string // for an agent, its user; for a decision about an agent, the agent
	What, Detail   string
	Of, Link       string // the item, and its page; "": the line is not about an item
	From, Hash     string // prefixes of hashes
	Diff           string // address of the comparison; "": at least one text is not stored
	Request, Asked string // id of the line's request, and its page; "": none
	Note           string
	Source         string
	File           string // address of the file with the whole note
}

// auditPages registers the page of the audit. The API serves the audit as a file.
func (c *Console) auditPages(mux *http.ServeMux, next http.Handler) {
	mux.Handle("GET /admin/audit", c.pageOr(next, c.audit))
	if c.o.Service.AuditFeed() != nil {
		mux.HandleFunc("GET "+followPath, c.followAudit)
	}
}

// auditQuery reads the filter of a page. Without a choice, the page leaves out the lines of syncs.
func (c *Console) auditQuery(
	r *http.Request,
	others ...string,
) (asked decide.AuditQuery, f audit.Filter, after string, err error) {
	after, err = onlyAfter(r, append(others, decide.AuditParameters...)...)
	asked = decide.ReadAuditQuery(r.URL.Query())
	asked.Sync = cmp.Or(asked.Sync, "hide")
	if err == nil {
		f, err = asked.Filter(c.o.Now())
	}
	return asked, f, after, err
}

// audit shows one page of the audit.
func (c *Console) audit(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	asked, f, after, err := c.auditQuery(r, checkParam)
	p := &auditPage{Page: Page{Title: "Audit", Here: "audit"}}
	if err == nil {
		p.AuditPage, err = c.o.Service.FoldedAudit(
			ctx,
			f,
			decide.Paging{Limit: maxRows, After: after},
		)
	}
	if err != nil {
		c.failed(w, r, "audit", err)
		return
	}
	root, here := rootOf(r), rootOf(r)+"admin/audit"
	v, values := c.o.Service.View(ctx), asked.Values()
	p.CSV, p.JSON = withQuery(here+".csv", values), withQuery(here+".jsonl", values)
	for n, l := range p.Lines {
		row := auditRowOf(root, v, l)
		if s := p.AuditPage.Syncs[n]; s != nil && s.Lines > 1 {
			row.fold(root, l, s)
		}
		row.File = p.JSON
		p.Rows = append(p.Rows, row)
	}
	p.Choices, p.Names = auditChoices(asked), c.o.Service.AuditNames(ctx, p.Lines, maxNames)
	p.Actions = slices.Sorted(maps.Keys(events))
	for _, s := range v.Servers() {
		p.Servers = append(p.Servers, s.Config.Name)
	}
	p.Servers = p.Servers[:min(len(p.Servers), maxNames)]
	other := asked
	p.WithSyncs, other.Sync = asked.Sync == "show", "show"
	if p.WithSyncs {
		other.Sync = ""
	}
	p.Syncs = withQuery(here, other.Values())
	if !p.WithSyncs {
		values.Del("sync") // the default
	}
	p.pager = pagerOf(here, values, after, p.Next)
	p.FourEyes = c.o.Service.FourEyes(ctx)
	if p.Calls != "" {
		p.Links, p.LogQuery = c.o.Service.CallLinks(), decide.LogQuery(f)
	}
	if c.o.Service.AuditFeed() != nil && after == "" && f.Until.IsZero() {
		since := c.o.Now().Add(-followOverlap).UTC().Format(time.RFC3339Nano)
		p.Follow = withQuery(root+followPath[1:], maps.Clone(values), "since", since)
	}
	c.auditDays(r, p, f, after, values)
	c.render(w, r, http.StatusOK, "audit", p)
}

// auditDays sets the days of the page that have files, and checks them if the request asks for it.
// These are the days of the filter. Without a bound in the filter, the lines of the page are the
// bound.
func (c *Console) auditDays(
	r *http.Request,
	p *auditPage,
	f audit.Filter,
	after string,
	values url.Values,
) {
	since, until := f.Since, f.Until
	if n := len(p.Lines); n > 0 {
		if since.IsZero() && p.Next.Next != "" {
			since = p.Lines[n-1].Time
		}
		if until.IsZero() && after != "" {
			until = p.Lines[0].Time.Add(1)
		}
	}
	days, err := c.o.Service.AuditFileDays(since, until)
	if err == nil && len(days) == 0 {
		return
	}
	if err == nil && r.URL.Query().Get(checkParam) != "" {
		var chain audit.Chain
		if chain, err = c.o.Service.CheckAudit(r.Context(), since, until); err == nil {
			p.Checked = &chain
		}
	}
	if err != nil {
		p.Problem = sentence(c.o.Service.Explain(r.Context(), "check of the audit", err).Detail)
	}
	if len(days) == 0 {
		return
	}
	first, last := days[0], days[len(days)-1]
	if p.Days = first; first != last {
		p.Days += " to " + last
	}
	zip := url.Values{"since": {first}}
	if end, err := time.Parse(time.DateOnly, last); err == nil {
		zip.Set("until", end.AddDate(0, 0, 1).Format(time.DateOnly))
	}
	p.Zip = withQuery(rootOf(r)+"admin/audit/evidence.zip", zip)
	p.Check = withQuery(
		rootOf(r)+"admin/audit",
		maps.Clone(values),
		"after",
		after,
		checkParam,
		"1",
	) + "#chain"
}

// auditChoices returns the filters of the page, with their current values.
func auditChoices(q decide.AuditQuery) []choice {
	kinds := []option{{"", "any"}, {audit.KindCall, "calls"}, {audit.KindEvent, "deeds"}}
	return []choice{
		{Name: "actor", Label: "Who", Value: q.Actor, List: "names"},
		{Name: "action", Label: "Action", Value: q.Action, List: "actions"},
		{Name: "server", Label: "Server", Value: q.Server, List: "servers"},
		{Name: "tool", Label: "Tool", Value: q.Tool},
		{Name: "kind", Label: "Kind", Value: q.Kind, Options: kinds},
		{Name: "since", Label: "Since", Value: q.Since, Hint: "24h, 2026-11-22"},
		{Name: "until", Label: "Until", Value: q.Until},
	}
}

// fold makes the row a summary of all lines of a sync about a server.
func (row *auditRow) fold(root string, l audit.Line, s *decide.SyncLines) {
	row.Of, row.Link = shorten(l.Server()), root+"admin/servers/"+url.PathEscape(l.Server())
	row.What, row.Hash, row.From, row.Diff, row.Note = "sync of a server", "", "", "", ""
	var parts []string
	for _, action := range slices.Sorted(maps.Keys(s.Actions)) {
		parts = append(parts, fmt.Sprintf("%d× %s", s.Actions[action], event(action)))
	}
	row.Detail = shorten(text.Count(s.Lines, "line") + ": " + strings.Join(parts, ", "))
}

func auditRowOf(root string, v *state.View, l audit.Line) auditRow {
	at := l.Time.UTC()
	row := auditRow{
		ID:  rowID(l),
		ISO: at.Format("2006-01-02T15:04:05.000Z"), At: at.Format("2006-01-02 15:04:05"),
		Who: shorten(l.Actor), What: shorten(itemEvent(v, l.Tool, l.Action, l.Hash)),
		Of: shorten(l.Tool), Hash: shortHash(l.Hash), From: shortHash(l.From),
		Note: l.Note, Source: shorten(l.Source),
	}
	if l.Kind == audit.KindCall {
		row.Who, row.For, row.Hash = shorten(l.Agent), shorten(l.Human), shortHash(l.Definition)
		row.WhoLink = agentLink(root, l.Agent)
		if l.Client != l.Agent {
			row.Client = shorten(l.Client)
		}
		row.What, row.Detail = callOutcome(l)
	}
	kind, name := l.About()
	switch {
	case l.Tool != "" && kind == audit.AboutAgent:
		row.For, row.ForLink = shorten(name), agentLink(root, name)
	case l.Tool == "":
		row.Of = shorten(l.Subject)
		row.Link = subjectLink(root, kind, name)
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

// rowID returns a short hash of what distinguishes a line from other lines.
func rowID(l audit.Line) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		l.Time.UTC().Format(time.RFC3339Nano), l.Kind, l.Agent + l.Actor, l.Decision + l.Action,
		l.Tool, l.Subject, l.Trace,
	}, "\x00")))
	return "l" + hex.EncodeToString(sum[:5])
}

// subjectLink returns the page about the subject of a line; "": there is none.
func subjectLink(root, kind, name string) string {
	switch {
	case kind == audit.AboutFile:
		return root + "admin/config"
	case kind == audit.AboutAgent && name != "":
		return agentLink(root, name)
	case kind == audit.AboutToken && name != "":
		return agentLink(root, "token:"+name)
	case kind == audit.AboutServer && name != "" && len(name) <= maxLinkedName:
		return root + "admin/servers/" + url.PathEscape(name)
	}
	return ""
}

// agentLink returns the address of the page about an agent; "": there is none.
func agentLink(root, id string) string {
	if id == "" || len(id) > maxLinkedName {
		return ""
	}
	return withQuery(root+"admin/agents", url.Values{}, "agent", id)
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
