package console

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
)

// maxSessionsHere limits the clients in a row.
const maxSessionsHere = 3

// An agentsPage shows the agents that the gateway has seen, or one of them.
type agentsPage struct {
	Page
	decide.SeenAgents
	Rows []agentRow
	One  string // the only agent; "": all
	Text string // part of the id
	Used []useRow
	Acts bool        // this person may stop agents
	Days []rangeLink // the lines of the only agent in the audit, by day
	pager
}

// An agentRow is an agent.
type agentRow struct {
	decide.SeenAgent
	Name, Link  string
	Audit       string // address of its lines in the audit
	GrantsLink  string // address of the requests
	Stop        string // address of the form that stops it; "": it cannot be stopped here
	Token       string // address of its token; "": it has none, or the person may not see it
	Client      string
	Human       string
	Clients     []string // names of the clients that connected, with the time
	MoreClients int
}

// agents shows the agents.
func (c *Console) agents(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	after, err := onlyAfter(r, "agent", "q")
	q := decide.AgentQuery{Agent: query.Get("agent"), Text: strings.TrimSpace(query.Get("q"))}
	p := &agentsPage{
		Page: Page{Title: "Agents", Here: "agents"},
		One:  shorten(q.Agent),
		Text: q.Text,
	}
	if err == nil {
		p.SeenAgents, err = c.o.Service.SeenAgents(
			r.Context(),
			q,
			decide.Paging{Limit: maxRows, After: after},
		)
	}
	if err != nil {
		c.failed(w, r, "agents", err)
		return
	}
	if p.One != "" {
		p.Title = "Agent " + p.One
	}
	root, rights := rootOf(r), callerOf(r.Context()).Rights
	p.Acts = c.o.Service.CanStop() && rights.Role >= identity.Operator
	for _, a := range p.Agents {
		p.Rows = append(p.Rows, c.agentRowOf(root, a, p.Acts, c.o.Now()))
	}
	if p.One != "" && len(p.Rows) == 1 {
		p.Days = daysOf(p.Rows[0].Audit, c.o.Now())
	}
	p.Used = useRowsOf(root, p.SeenAgents.Used)
	filter := url.Values{}
	for name, value := range map[string]string{"agent": q.Agent, "q": q.Text} {
		if value != "" {
			filter.Set(name, value)
		}
	}
	p.pager = pagerOf(root+"admin/agents", filter, after, p.Next)
	c.render(w, r, http.StatusOK, "agents", p)
}

// RefusedCalls returns how many calls the gateway refused, including calls of locked tools.
func (a agentRow) RefusedCalls() int { return a.Locked + a.Refused }

// daysOf returns links to the lines of an agent by days in UTC.
func daysOf(address string, now time.Time) (links []rangeLink) {
	day := func(back int) string { return now.UTC().AddDate(0, 0, -back).Format(time.DateOnly) }
	for _, d := range []struct{ words, since, until string }{{"today", day(0), ""}, {"yesterday", day(1), day(0)}, {"last 7 days", day(7), ""}} {
		if address != "" {
			at := address + "&since=" + d.since
			if d.until != "" {
				at += "&until=" + d.until
			}
			links = append(links, rangeLink{usage.Range{Words: d.words}, at, false})
		}
	}
	return links
}

func (c *Console) agentRowOf(root string, a decide.SeenAgent, acts bool, now time.Time) agentRow {
	row := agentRow{SeenAgent: a, Name: shorten(a.ID), Human: shorten(a.Human)}
	if a.Client != a.ID {
		row.Client = shorten(a.Client)
	}
	if row.Link = agentLink(root, a.ID); row.Link != "" {
		row.Audit = withQuery(root+"admin/audit", url.Values{}, "actor", a.ID, "kind", "call")
	}
	if acts && a.Stopped == nil && !a.Inexact && row.Link != "" {
		row.Stop = withQuery(root+"admin/stop", url.Values{}, "agent", a.ID) + "#make"
	}
	if a.HasToken && acts && c.o.Tokens != nil {
		row.Token = root + "admin/tokens"
	}
	if a.Grants > 0 {
		row.GrantsLink = root + "admin/requests?state=all"
	}
	for _, v := range a.Sessions[:min(len(a.Sessions), maxSessionsHere)] {
		name := "without a name"
		if v.Client != "" {
			name = "“" + shorten(strings.TrimSpace(v.Client+" "+v.Version)) + "”"
		}
		row.Clients = append(row.Clients, name+", "+ago(now.Sub(v.At), v.At))
	}
	row.MoreClients = len(a.Sessions) - len(row.Clients)
	return row
}
