package console_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage/usagetest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// calling lets the fixture count and keep these calls.
func (h *fixture) calling(lines ...audit.Line) {
	h.T.Helper()
	known := func(context.Context, tool.ID) (tool.Tier, bool) { return tool.Read, true }
	c := usage.NewCounter(&usagetest.Mem{}, known, &usage.Options{Now: h.Clock.Now})
	for i := range lines {
		lines[i].V, lines[i].Kind = 1, audit.KindCall
		if lines[i].Time.IsZero() {
			lines[i].Time = h.Clock.Now()
		}
		require.OK(h.T, c.Write(h.T.Context(), lines[i]))
	}
	days := auditDays(h.T, lines...)
	h.Decide.Usage, h.Decide.Calls, h.Decide.Days = c, days, days
	h.Decide.Seen = connect.NewVisits(h.Clock.Now)
	h.Open()
}

// withAgents returns a fixture in which kim, a hostile agent and an old agent called, in this
// order, the newest call first.
func withAgents(t *testing.T) *fixture {
	h := newFixture(t)
	now, kim := h.Clock.Now(), audit.Line{
		Agent:  "kim",
		Human:  "kim@example.com",
		Client: "<i>cursor",
	}
	old, hostile, called, locked := kim, kim, kim, kim
	for i, l := range []*audit.Line{&locked, &called, &hostile, &old} {
		l.Time, l.Tool, l.Decision = now.Add(
			-time.Minute*time.Duration(i+1),
		), "fs:read_file", audit.Allowed
	}
	called.Outcome = "transient"
	locked.Tool, locked.Decision = "mail:send", audit.Locked
	hostile.Agent, hostile.Decision = "\u202e<b>'\"&", audit.Scope
	old.Agent, old.Time = "token:old", now.Add(-100*time.Hour)
	h.calling(old, hostile, called, locked)
	h.Decide.Seen.Note(
		connect.Visit{Agent: "kim", Client: "Cursor <x>", Version: "1.2"},
		func() int { return 1 },
	)
	return h
}

func TestAgentsPage(t *testing.T) {
	h := withAgents(t)
	page := h.Page(http.StatusOK, "/admin/agents")
	says(
		t,
		page,
		`<a href="../admin/agents?agent=kim"><b>kim</b></a>`,
		`client &lt;i&gt;cursor</div><div class="hint">for kim@example.com`,
		"“Cursor &lt;x&gt; 1.2”",
		`<a class="button no" href="../admin/stop?agent=kim#make">Stop…`,
		`<a href="../admin/audit?actor=kim&amp;kind=call">1</a> <span class="dim">(1 failed)</span>`,
		`1 <span class="dim">(1 locked)</span>`,
		"<b>\uFFFD&lt;b&gt;&#39;",
		"no stop can name it as it is here",
	)
	lacks(t, page, "\u202e")
	at := func(name string) int { return strings.Index(page, "<b>"+name) }
	if at("kim") > at("\uFFFD") || at("\uFFFD") > at("token:old") {
		t.Errorf("the newest call is not first: %s", page)
	}
	says(t, h.Page(http.StatusOK, "/admin/agents?q=OLD"), "token:old")
	says(t, h.Page(http.StatusOK, "/admin/agents?agent=nobody"), "No call of this agent is known")
	says(t, h.Page(http.StatusOK, "/admin/usage"), `<a href="../admin/agents?agent=kim">kim</a>`)
	empty := h.Page(http.StatusOK, "/admin/audit?actor=nobody")
	says(t, empty, `<option value="kim">`, `list="names"`, `<option value="fs">`)
}

func TestPageOfOneAgent(t *testing.T) {
	h := withAgents(t)
	one := h.Page(http.StatusOK, "/admin/agents?agent=kim")
	says(
		t,
		one,
		"<h1>Agent kim</h1>",
		`<a href="../admin/tools/fs/read_file">fs:read_file</a>`,
		"1 call, 1 failed",
		"mail:send",
		"0 calls, 1 locked",
	)
	lacks(t, one, "token:old")
	says(
		t,
		h.Page(http.StatusOK, "/admin/stop?agent=kim"),
		`value="agent" checked`,
		`name="agent" list="agents" autocomplete="off" maxlength="512" value="kim"`,
	)

	h.Submit(
		"/admin/stop",
		map[string][]string{
			"what":   {"agent"},
			"agent":  {"kim"},
			"reason": {"loops"},
			"sure":   {"1"},
		},
	)
	stopped := h.Page(http.StatusOK, "/admin/agents?agent=kim")
	says(t, stopped, `<span class="chip permanent">stopped</span>`)
	lacks(t, stopped, "Stop…")
	h.Console.Actor = func(*http.Request) (decide.Actor, error) {
		return decide.Actor{Name: "vic", Rights: identity.Rights{Role: identity.Viewer}}, nil
	}
	h.Open()
	lacks(t, h.Page(http.StatusOK, "/admin/agents"), "Stop…")
}

// A page has 50 of any number of agents, and stays small with the longest names.
func TestAgentsPageOfManyAgents(t *testing.T) {
	h := newFixture(t)
	var lines []audit.Line
	for n := range 10_000 {
		name := fmt.Sprintf("agent-%05d", n)
		if n%100 == 99 {
			name += strings.Repeat("\u202e", 400)
		}
		lines = append(
			lines,
			audit.Line{
				Time:     h.Clock.Now().Add(-time.Duration(n%500) * time.Hour),
				Agent:    name,
				Human:    strings.Repeat("<", 512),
				Tool:     "fs:read_file",
				Decision: audit.Allowed,
			},
		)
	}
	h.calling(lines...)
	seen, _ := h.walk("/admin/agents?q=agent-000", `<b>agent-(\d{5})`)
	once(t, seen, 100)
	h.small("/admin/agents")
}
