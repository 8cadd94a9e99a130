package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
)

// A usagePage shows how agents use the tools.
type usagePage struct {
	Page
	decide.Usage
	Ranges []rangeLink
	Words  string // name of the range
	Drawn  []drawing
	Empty  []string      // titles of the charts without a value
	Found  *usage.Series // the searches; nil: none
	Barren string        // number of searches that found nothing callable
	Search string        // address of the lines of searches in the audit
	Wanted []useRow
	Most   []useRow
	Agents []useRow
	Again  string // address of this page
	MayAsk bool   // this person may start a search of the log
}

// A rangeLink leads to another range.
type rangeLink struct {
	usage.Range
	Address string
	Here    bool
}

// A useRow is a tool or an agent with its counts.
type useRow struct {
	Name, Link, Status string
	Beside             int
	usage.Use
}

// usagePages registers the page of the usage.
func (c *Console) usagePages(mux *http.ServeMux, next http.Handler) {
	mux.Handle("GET /admin/usage", c.pageOr(next, c.usage))
	mux.Handle("POST /admin/usage", formOr(next, c.askUsage))
}

// usage shows how agents use the tools.
func (c *Console) usage(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	c.showUsage(w, r, query.Get("range"), query.Get("query"), nil)
}

// askUsage starts the search of the log for the usage by tool and by agent.
func (c *Console) askUsage(w http.ResponseWriter, r *http.Request) {
	asked, err := c.o.Service.AskUsage(r.Context(), r.PostForm.Get("range"))
	if err != nil {
		c.showUsage(w, r, r.PostForm.Get("range"), "", err)
		return
	}
	redirectTo(w, http.StatusSeeOther, withQuery("./usage", url.Values{}, "range", asked.Range, "query", asked.Query)+"#by-tool")
}

// showUsage shows the usage of a range, with the result of a search of the log. After a refused
// form it also shows the refusal.
func (c *Console) showUsage(w http.ResponseWriter, r *http.Request, name, query string, refusal error) {
	p := &usagePage{Page: Page{Title: "Usage", Here: "usage"}}
	status, root := http.StatusOK, rootOf(r)
	if refusal != nil {
		e := c.o.Service.Explain(r.Context(), "ask for the usage", refusal)
		status, p.Problem = e.Status, sentence(e.Detail)
	}
	u, err := c.o.Service.Usage(r.Context(), name, query)
	if err != nil {
		c.failed(w, r, "usage", err)
		return
	}
	p.MayAsk = callerOf(r.Context()).Rights.Role >= requiredRole(http.MethodPost, r.URL.Path)
	p.Usage, p.Again = u, withQuery(root+"admin/usage", url.Values{}, "range", u.Range, "query", query)
	for _, rg := range usage.Ranges() {
		here := rg.Name == u.Range
		if here {
			p.Words = rg.Words
		}
		p.Ranges = append(p.Ranges, rangeLink{rg, root + "admin/usage?range=" + rg.Name, here})
	}
	p.draw(root)
	if u.Uses != nil {
		p.Wanted, p.Most = useRowsOf(root, u.Uses.Wanted), useRowsOf(root, u.Uses.Most)
		for _, a := range u.Uses.Agents {
			p.Agents = append(p.Agents, useRow{Name: shorten(a.Agent), Link: agentLink(root, a.Agent), Beside: a.Tools, Use: a.Use})
		}
	}
	c.render(w, r, status, "usage", p)
}

// maxColors is the number of colors of series that are no trouble. The next colors are for trouble.
const maxColors = 4

// draw sets the drawings. The page combines the charts about calls that did not succeed: one bar
// then shows how many they were.
func (p *usagePage) draw(root string) {
	trouble := usage.Chart{
		Name: "trouble", Title: "Calls that were refused or failed", Stacked: true,
	}
	parts := map[string]usage.Chart{}
	var charts []usage.Chart
	for _, chart := range p.Charts {
		switch chart.Name {
		case "locked", "refused", "errors":
			sum := sumOf(chart)
			sum.Words = troubleWords[chart.Name]
			trouble.Series, parts[chart.Name] = append(trouble.Series, sum), chart
		case "searches":
			p.Found = new(sumOf(chart))
			p.Barren = numeral(*chart.Series[len(chart.Series)-1].Total)
			p.Search = p.lines(root, "tool", searchTool)
		default:
			charts = append(charts, chart)
		}
	}
	if len(charts) > 0 {
		charts = slices.Insert(charts, 1, trouble)
	}
	for _, chart := range charts {
		d := draw(chart, p.From, time.Duration(p.Step)*time.Second)
		if d.Bars == nil {
			p.Empty = append(p.Empty, strings.ToLower(d.Title))
			continue
		}
		d.Link = p.lines(root)
		if d.Name == "calls" {
			d.Link = p.lines(root, "action", audit.Allowed)
		}
		for n, b := range d.Bars {
			if of, ok := parts[b.Name]; ok {
				d.Bars[n].Number += maxColors
				p.explain(root, &d.Bars[n], of)
			}
		}
		p.Drawn = append(p.Drawn, d)
	}
}

// lines returns the address of the calls of the range in the audit.
func (p *usagePage) lines(root string, pairs ...string) string {
	pairs = append(pairs, "kind", audit.KindCall, "since", p.Range)
	return withQuery(root+"admin/audit", url.Values{}, pairs...)
}

// explain adds the parts of a sum to its bars, and the links to lines of the audit.
func (p *usagePage) explain(root string, sum *bars, of usage.Chart) {
	for _, s := range of.Series {
		part := barsOf(s, 0, "")
		if part == nil {
			continue
		}
		if of.Name == "refused" {
			part.Link = p.lines(root, "action", s.Name)
		}
		sum.Parts = append(sum.Parts, *part)
	}
	if of.Name == "locked" {
		sum.Link = p.lines(root, "action", audit.Locked)
	}
}

// troubleWords are the words for the charts about calls that did not succeed.
var troubleWords = map[string]string{
	"locked": "locked", "refused": "refused otherwise", "errors": "failed",
}

// searchTool is the name of a search in the audit.
const searchTool = "retrieve_tools"

// Rest says how many rows a list omits; "" if none.
func (p *usagePage) Rest(n int) string {
	if n == 0 {
		return ""
	}
	return "and " + text.Count(n, "more row")
}

// Searched formats a number of searches.
func (p *usagePage) Searched(n int) string {
	if n == 1 {
		return "1 search"
	}
	return strconv.Itoa(n) + " searches"
}

func useRowsOf(root string, tools []decide.UsedTool) (rows []useRow) {
	for _, t := range tools {
		row := useRow{Name: shorten(t.ID), Status: t.Status, Beside: t.Agents, Use: t.Use}
		if id, err := tool.ParseID(t.ID); err == nil && t.Status != decide.NotListed {
			row.Link = approval.Link(root[:len(root)-1], id)
		}
		rows = append(rows, row)
	}
	return rows
}

// spark returns a bar of text for each day of a week.
func spark(days [7]int) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	most, out := 1, []rune{}
	for _, n := range days {
		most = max(most, n)
	}
	for _, n := range days {
		out = append(out, bars[(n*(len(bars)-1)+most-1)/most])
	}
	return string(out)
}
