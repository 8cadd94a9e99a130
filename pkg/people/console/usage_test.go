package console_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage/usagetest"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A counted fixture counts calls and searches.
type counted struct {
	*fixture
	counter *usage.Counter
	store   usagetest.Mem
}

func count(h *fixture) *counted {
	c := &counted{fixture: h}
	c.counter = usage.NewCounter(&c.store, func(_ context.Context, id tool.ID) (tool.Tier, bool) {
		view := h.States.Load(h.T.Context()).View(identity.Agent{ID: "admin", Servers: []string{"*"}})
		i, ok := view.Find(id)
		if !ok {
			return 0, false
		}
		return view.Tier(i), true
	}, &usage.Options{Now: h.Clock.Now})
	h.Decide.Usage = c.counter
	h.Open()
	return c
}

func (c *counted) call(ago time.Duration, l audit.Line) {
	c.T.Helper()
	l.Kind, l.Time = audit.KindCall, c.Clock.Now().Add(-ago)
	require.OK(c.T, c.counter.Write(c.T.Context(), l))
}

// day writes a day with every kind of event, at noon.
func (c *counted) day() {
	c.Clock.Set(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), time.Millisecond)
	for n := range 40 {
		ago := time.Duration(n) * 37 * time.Minute / 2
		c.call(ago, audit.Line{Agent: "ci", Tool: "fs:read_file", Decision: audit.Allowed, Outcome: []string{"available", "available", "transient", "cancelled"}[n%4], Ms: float64(10 + n*n)})
		if n%3 == 0 {
			c.call(ago, audit.Line{Agent: "deploy", Tool: "mail:send", Decision: audit.Locked, Status: "pending_approval", Ms: 2})
			c.call(ago, audit.Line{Agent: "ci", Tool: "retrieve_tools", Decision: audit.Allowed, Found: &audit.Matches{Callable: n % 2, Shown: []string{"fs:format_disk"}}, Ms: 3})
		}
		if n%10 == 0 {
			c.call(ago, audit.Line{Agent: "ci", Tool: "fs:format_disk", Decision: audit.Locked, Status: "disabled_by_config", Ms: 1})
			c.call(ago, audit.Line{Agent: "<eve>", Tool: "made:up", Decision: audit.Scope, Ms: 1})
		}
	}
}

func TestUsagePage(t *testing.T) {
	c := count(newFixture(t))
	empty := c.Page(http.StatusOK, "/admin/usage")
	says(
		t,
		empty,
		"No agent did anything.",
		"No tool that is locked now was called or found.",
		"Without any value: calls by tier; calls that were refused or failed; how long requests took.",
	)
	lacks(t, empty, "<svg", "Search the log")
	c.day()
	page := c.Page(http.StatusOK, "/admin/usage?range=24h")
	lacks(t, page, "(CloudWatch)")
	says(
		t,
		page,
		`<h2 id="calls">Calls by tier: 40 `,
		`<h2 id="trouble">Calls that were refused or failed: 42 `,
		`locked</a> <b>18</b> <span class="hint">(pending approval <b>14</b>`,
		`disabled by config <b>4</b>)`, `not in scope</a> <b>4</b>`,
		`failed <b>20</b> <span class="hint">(transient <b>10</b>, cancelled <b>10</b>)`,
		"Searches: <b>14</b>, 7 of them found nothing callable",
		`href="../admin/tools/mail/send"`,
		"&lt;eve&gt;",
		"40 calls",
		"called 4×, found 14×",
		`aria-current="page">last 24 hours`,
	)
	lacks(t, page, "<eve>", "style=", "made:up")
	if wanted, _, _ := strings.Cut(page, "Most called"); strings.Index(wanted, "fs:format_disk") > strings.Index(wanted, "mail:send") {
		t.Error("fs:format_disk is not before mail:send")
	}
	// This test compares only the drawings: the tests above check the rest of the page.
	golden.Check(t, filepath.Join("testdata", "usage.svg"), strings.Join(regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1), "\n")+"\n")
	for path, want := range map[string]int{"/admin/usage?range=2h": 422, "/admin/usage?range=1h": 200, "/admin/usage?range=7d": 200, "/admin/usage?range=30d": 200, "/admin/usage?query=x": 200} {
		if a := c.Send(path, "", browser); a.Status != want {
			t.Errorf("%s = %d %s", path, a.Status, a.Body)
		}
	}
}

// The axes of a chart have round numbers, and its links lead to the lines of its time in the audit.
func TestAxesAndLinks(t *testing.T) {
	c := count(newFixture(t))
	c.day()
	marks := regexp.MustCompile(`"><span>([^/]*)</span><span>([^/]*)</span><span>0</span></p>`)
	ticks := regexp.MustCompile(`"true">(?:<span>[^/]*</span>){4}<span>now</span></p>`)
	links := regexp.MustCompile(`href="\.\.(/admin/audit\?[^"]*)">([^<]*)`)
	for name, want := range map[string]string{
		"1h":  "2, 1; 4, 2; 20 ms, 10",
		"24h": "4, 2; 6, 3; 2000 ms, 1000",
		"7d":  "20, 10; 20, 10; 2000 ms, 1000",
		"30d": "40, 20; 40, 20; 2000 ms, 1000",
	} {
		page := c.Page(http.StatusOK, "/admin/usage?range="+name)
		var got []string
		for _, m := range marks.FindAllStringSubmatch(page, -1) {
			got = append(got, m[1]+", "+m[2])
		}
		if got := strings.Join(got, "; "); got != want || len(ticks.FindAllString(page, -1)) != 3 {
			t.Errorf("the axes of %s have %s, want %s", name, got, want)
		}
		found := links.FindAllStringSubmatch(page, -1)
		if len(found) < 5 {
			t.Errorf("%s has %d links", name, len(found))
		}
		for _, m := range found {
			if !strings.Contains(m[1], "kind=call&amp;") || !strings.Contains(m[1], "since="+name) {
				t.Errorf("%q leads to %s", m[2], m[1])
			}
			c.Page(http.StatusOK, html.UnescapeString(m[1]))
		}
	}
}

// The JSON and the table below a chart have the same numbers.
func TestChartIsItsTable(t *testing.T) {
	c := count(newFixture(t))
	c.day()
	for _, r := range usage.Ranges() {
		page := c.Page(http.StatusOK, "/admin/usage?range="+r.Name)
		u := admintest.Into[decide.Usage](c.Fixture, "/admin/usage?range="+r.Name, "")
		for _, chart := range drawnOf(u.Charts) {
			_, figure, _ := strings.Cut(page, `<figure class="card" aria-labelledby="`+chart.Name+`">`)
			figure, _, _ = strings.Cut(figure, "</figure>")
			var got [][]string
			for _, m := range regexp.MustCompile(`<tr>(.*?)</tr>`).FindAllStringSubmatch(figure, -1) {
				var row []string
				for _, cell := range regexp.MustCompile(`<t[hd][^>]*>([^<]*)`).FindAllStringSubmatch(m[1], -1) {
					row = append(row, html.UnescapeString(cell[1]))
				}
				got = append(got, row)
			}
			if d := cmp.Diff(tableOf(u, chart), got); d != "" {
				t.Errorf("%s %s (-want +got)\n%s", r.Name, chart.Name, d)
			}
		}
	}
}

// troubles are the names of the charts about calls that did not succeed, and the words for each.
var troubles = map[string]string{
	"locked": "locked", "refused": "refused otherwise", "errors": "failed",
}

// drawnOf returns the charts that the page shows: it combines the charts about calls that did not
// succeed, and has no chart of searches.
func drawnOf(all []usage.Chart) []usage.Chart {
	trouble := usage.Chart{Name: "trouble"}
	for _, c := range all[1:4] {
		sum := usage.Series{Words: troubles[c.Name]}
		sum.Values, sum.Total = make([]float64, len(c.Series[0].Values)), new(float64)
		for _, s := range c.Series {
			*sum.Total += *s.Total
			for i, v := range s.Values {
				sum.Values[i] += v
			}
		}
		trouble.Series = append(trouble.Series, sum)
	}
	return []usage.Chart{all[0], trouble, all[5]}
}

// tableOf returns the expected table of a chart; nil if it is empty.
func tableOf(u decide.Usage, chart usage.Chart) (table [][]string) {
	head, foot := []string{"From"}, []string{"all"}
	for _, s := range chart.Series {
		if slices.Max(s.Values) > 0 {
			head, foot = append(head, s.Words), append(foot, strings.TrimSpace(fmt.Sprint(*s.Total, " ", chart.Unit)))
		}
	}
	for i := range chart.Series[0].Values {
		layout := "2 Jan 15:04"
		if u.Step == 24*60*60 {
			layout = "2 Jan"
		}
		row, sum := []string{u.From.Add(time.Duration(i*u.Step) * time.Second).Format(layout)}, 0.0
		for _, s := range chart.Series {
			if sum += s.Values[i]; slices.Max(s.Values) > 0 {
				row = append(row, fmt.Sprint(s.Values[i]))
			}
		}
		if sum > 0 {
			table = append(table, row)
		}
	}
	if len(table) == 0 {
		return nil
	}
	return append(append([][]string{head}, table...), foot)
}

// If the data is unreadable or incomplete, the page says so.
func TestUsageFails(t *testing.T) {
	h := newFixture(t)
	says(t, h.Page(http.StatusNotImplemented, "/admin/usage"), "does not count its usage")
	c := count(h)
	c.day()
	c.store.Fail = func() error { return errors.New("disk on fire") }
	page := c.Page(http.StatusServiceUnavailable, "/admin/usage")
	says(t, page, "The usage cannot be read now, and nothing else is affected")
	lacks(t, page, "disk on fire")
	if got := c.Problem(http.StatusServiceUnavailable, "/admin/usage", ""); !strings.Contains(got, "cannot be read now") {
		t.Error(got)
	}
	says(t, c.Page(http.StatusOK, "/admin/tools/fs/read_file"), "read_file") // but without the line about its use
	fails := 0
	c.store.Fail = func() error {
		if fails++; fails == 1 {
			return errors.New("disk on fire")
		}
		return nil
	}
	says(t, c.Page(http.StatusOK, "/admin/usage"), "Incomplete data", "could not be written and are missing here")
	if a := c.Submit("/admin/usage", map[string][]string{"range": {"1h"}}); a.Status != http.StatusNotImplemented || !strings.Contains(a.Body, "No query was started") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// An operator starts the search with a button, because it costs money. The page waits for the
// result and shows the cost.
func TestUsageIsAskedFor(t *testing.T) {
	h := newFixture(t)
	asked := &usagetest.Asker{Now: h.Clock.Now, Uses: &usage.Uses{
		Tools:  []usage.Row{{Name: "mail:send", Beside: 2, Use: usage.Use{Locked: 3}}, {Name: "fs:read_file", Beside: 1, Use: usage.Use{Calls: 9, Failed: 1}}, {Name: "gone:tool", Beside: 1, Use: usage.Use{Calls: 1}}},
		Agents: []usage.Row{{Name: "ci", Beside: 2, Use: usage.Use{Calls: 9, Locked: 3, Searches: 1}}},
	}}
	h.Decide.Usage, h.Decide.Dashboard = asked, "https://aws.example.com/#dashboards/dashboard/blue"
	h.Open()
	page := h.Page(http.StatusOK, "/admin/usage?range=7d")
	says(t, page, `<a href="https://aws.example.com/#dashboards/dashboard/blue" rel="noreferrer">`)
	says(t, page, "<button>Search the log for tools and agents</button>", "CloudWatch Logs charges")
	lacks(t, page, "Most called")
	a := h.Submit("/admin/usage", map[string][]string{"range": {"7d"}})
	if a.Status != http.StatusSeeOther || a.Header.Get("Location") != "./usage?query=q0&range=7d#by-tool" {
		t.Fatalf("%d %s %s", a.Status, a.Header.Get("Location"), a.Body)
	}
	says(t, h.Page(http.StatusOK, "/admin/usage?query=q0&range=7d"), "The search of the log takes", `href="../admin/usage?query=q0&amp;range=7d"`)
	page = h.Page(http.StatusOK, "/admin/usage?query=q0&range=7d")
	says(t, page, "about $0.01", "called 3×", "9 calls", "1 failed", "no longer listed", "9 calls, 3 locked, 1 search <span class=\"dim\">with 2 tools", "<button>Search")
	lacks(t, page, "is being searched")
	for path, want := range map[string]int{"/admin/usage?query=q7&range=7d": 404, "/admin/usage?query=q0&range=1h": 422, "/admin/usage?query=%3Cx%3E&range=1h": 404} {
		h.Page(want, path)
		h.Problem(want, path, "")
	}
	asked.Failed = "The log has gone <away>."
	says(t, h.Page(http.StatusOK, "/admin/usage?query=q0&range=7d"), "The log has gone &lt;away&gt;.")
	asked.Refuse = usage.RefusedError("nothing was asked: another question is open")
	if a := h.Submit("/admin/usage", map[string][]string{"range": {"7d"}}); a.Status != http.StatusConflict || !strings.Contains(a.Body, "Nothing was asked: another question is open.") || !strings.Contains(a.Body, "By tool and by agent") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	asked.Refuse = errors.New("denied: arn:aws:iam::1:role/x")
	if a := h.Submit("/admin/usage", map[string][]string{"range": {"7d"}}); a.Status != http.StatusBadGateway || !strings.Contains(a.Body, "The query could not be started; if only the answer was lost") || strings.Contains(a.Body, "arn:") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	h.Console.Actor = func(*http.Request) (decide.Actor, error) {
		return decide.Actor{Name: "vic", Rights: identity.Rights{Role: identity.Viewer}}, nil
	}
	h.Open()
	page = h.Page(http.StatusOK, "/admin/usage")
	says(t, page, "An operator can search the log")
	lacks(t, page, "<button>Search")
}

// The page of a tool shows its calls of the last week, if there are any.
func TestUseOfATool(t *testing.T) {
	c := count(newFixture(t))
	lacks(t, c.Page(http.StatusOK, "/admin/tools/fs/read_file"), "<dt>Use")
	for d, n := range []int{1, 8, 4, 0, 0, 0, 2} { // by day, the newest first
		for i := range n {
			c.call(time.Duration(d)*24*time.Hour, audit.Line{Agent: fmt.Sprint("agent-", i%4), Tool: "fs:read_file", Decision: audit.Allowed, Outcome: "available"})
		}
	}
	c.call(0, audit.Line{Agent: "deploy", Tool: "mail:send", Decision: audit.Locked, Status: "pending_approval"})
	require.OK(t, c.counter.Flush(t.Context()))
	says(t, c.Page(http.StatusOK, "/admin/tools/fs/read_file"), `<dt>Use<dd><span aria-hidden="true">▃▁▁▁▅█▂</span> 15 calls/7 d by 4 agents`)
	says(t, c.Page(http.StatusOK, "/admin/tools/mail/send"), `<dt>Use<dd>0 calls/7 d, 1 locked by 1 agent`)
	if got := admintest.Into[decide.Tool](c.Fixture, "/admin/tools/fs/read_file", "").Use; got == nil || got.Calls != 15 || got.Agents != 4 {
		t.Errorf("%+v", got)
	}
}

// The page is short even with the maximum number of rows, and more names than fit.
func TestUsageOfManyTools(t *testing.T) {
	h := &fixture{Fixture: admintest.WithMany(t, 3, 500)}
	c := count(h)
	decisions := []audit.Line{
		{Decision: audit.Allowed, Outcome: "transient"}, {Decision: audit.Allowed, Outcome: "permanent"}, {Decision: audit.Allowed, Outcome: "denied"}, {Decision: audit.Allowed, Outcome: "cancelled"},
		{Decision: audit.Locked, Status: "pending_approval"}, {Decision: audit.Locked, Status: "disabled_by_user"}, {Decision: audit.Locked, Status: "disabled_by_config"}, {Decision: audit.Locked, Status: "server_disabled"}, {Decision: audit.Locked},
		{Decision: audit.Tier}, {Decision: audit.Scope}, {Decision: audit.Stopped}, {Decision: audit.Refused}, {Found: &audit.Matches{}}, {Found: &audit.Matches{Callable: 1}},
	}
	c.Clock.Set(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), time.Millisecond)
	for n := range 15_000 {
		l := decisions[n%len(decisions)]
		l.Agent, l.Tool, l.Ms = strings.Repeat("&", 100)+fmt.Sprint(n%50), fmt.Sprintf("server-%03d:tool_%05d", n%3, n%500), float64(n%4000)
		if l.Found != nil {
			l.Tool = "retrieve_tools"
		}
		c.call(time.Duration(n)*24*time.Hour/15_000, l)
	}
	for _, r := range usage.Ranges() {
		c.small("/admin/usage?range=" + r.Name)
	}
	says(t, c.small("/admin/usage?range=24h"), "more row")
}
