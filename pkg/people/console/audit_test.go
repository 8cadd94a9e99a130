package console_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// keep adds an event to the audit.
func (h *fixture) keep(l audit.Line) {
	h.T.Helper()
	l.V, l.Kind = audit.Version, audit.KindEvent
	if l.Time.IsZero() {
		l.Time = h.Clock.Now()
	}
	require.OK(h.T, h.Deeds.PutEvent(h.T.Context(), l))
}

func TestAuditPage(t *testing.T) {
	h := newFixture(t)
	h.keep(
		audit.Line{
			Actor:   "kim",
			Action:  audit.ActionStop,
			Subject: "server:mail",
			Note:    "it leaks",
			Source:  "192.0.2.9",
		},
	)
	before := h.Hash("fs/read_file")
	h.ByName["fs"].Tools[0] = strings.Replace(h.ByName["fs"].Tools[0], "Twice", "Once", 1)
	h.Sync()
	now := h.Hash("fs/read_file")
	w := h.Submit(
		"/admin/tools/fs/read_file/approve",
		url.Values{
			"hash": {string(now)},
			"rev":  {h.Field(h.Page(http.StatusOK, "/admin/tools/fs/read_file"), "rev")},
			"note": {"fine"},
		},
	)
	if w.Status != http.StatusSeeOther {
		t.Fatalf("%d %s", w.Status, w.Body)
	}
	page := h.Page(http.StatusOK, "/admin/audit")
	says(
		t,
		page,
		`<a href="../admin/audit" aria-current="page">Audit</a>`,
		`<b>kim</b><div class="hint">from 192.0.2.9</div><td>stopped<td><a href="../admin/servers/mail">server:mail</a><td>“it leaks”</tr>`,
		`<b>ann</b><div class="hint">from 192.0.2.1</div><td>approved<td><a href="../admin/tools/fs/read_file">fs:read_file</a>`,
		string(before[:12]),
		string(now[:12]),
		"“fine”",
		`href="../admin/audit.csv?sync=hide"`,
		`href="../admin/audit.jsonl?sync=hide"`,
	)
	lacks(t, page, `rel="next"`)
	filtered := h.Page(http.StatusOK, "/admin/audit?actor=kim&kind=deed&since=24h&tool=&until=")
	if !strings.Contains(filtered, "it leaks") || strings.Contains(filtered, "fs:read_file") ||
		!strings.Contains(filtered, `name="actor" value="kim"`) ||
		!strings.Contains(filtered, `<option value="deed" selected>`) ||
		!strings.Contains(
			filtered,
			`href="../admin/audit.csv?actor=kim&amp;kind=deed&amp;since=24h&amp;sync=hide"`,
		) {
		t.Errorf("page = %s", filtered)
	}
	if empty := h.Page(http.StatusOK, "/admin/audit?actor=nobody"); !strings.Contains(
		empty,
		"No line matches the filter",
	) {
		t.Errorf("page = %s", empty)
	}
	for _, wrong := range []string{"since=yesterday", "kind=x", "who=kim", "after=x"} {
		if page := h.Page(http.StatusUnprocessableEntity, "/admin/audit?"+wrong); !strings.Contains(
			page,
			"it takes",
		) &&
			!strings.Contains(page, "use only") &&
			!strings.Contains(page, "begin again without it") {
			t.Errorf("%s: %s", wrong, page)
		}
	}
}

// A line about a request names the agent and links to the request, and each action has its own
// wording.
func TestAuditPageOfRequests(t *testing.T) {
	h := newFixture(t)
	about := audit.Line{
		Actor:   "kim",
		Tool:    "mail:send",
		Subject: "agent:token:ci",
		Request: "R-7KQ2M4XD",
	}
	for action, words := range map[string]string{
		audit.ActionAsked: "requested access", audit.ActionWithdrawn: "withdrew a request", audit.ActionDecided: "decided a request",
		audit.ActionUnsent: "people could not be notified for a day", approval.ActionPropose: "approved as the first of two people; it waited for the second",
	} {
		about.Action = action
		h.keep(about)
		page := h.Page(http.StatusOK, "/admin/audit?action="+action)
		says(
			t,
			page,
			`<b>kim</b><div class="hint">for <a href="../admin/agents?agent=token%3Aci">token:ci</a></div><td>`+words+`<td><a href="../admin/tools/mail/send">mail:send</a><div><a href="../admin/requests/R-7KQ2M4XD">R-7KQ2M4XD</a></div>`,
		)
	}
}

// The answer to a bad filter names the filter and its valid values.
func TestAuditFileNamesABadFilter(t *testing.T) {
	h := newFixture(t)
	for query, want := range map[string]string{"kind=x": "kind: expected value to be one of", "since=yesterday": "Since &#34;yesterday&#34; is not a time: it takes a day"} {
		page := h.Page(http.StatusUnprocessableEntity, "/admin/audit.csv?"+query)
		says(t, page, want)
		lacks(t, page, "alidation failed")
	}
}

// A line links to the differences between its two definitions, if the approval record still has
// both texts.
func TestAuditPageDiff(t *testing.T) {
	h := newFixture(t)
	before := h.Hash("fs/read_file")
	h.ByName["fs"].Tools[0] = strings.Replace(h.ByName["fs"].Tools[0], "Twice", "Once", 1)
	h.Sync()
	now := h.Hash("fs/read_file")
	h.keep(
		audit.Line{Actor: "kim", Action: "approve", Tool: "fs:read_file", From: before, Hash: now},
	)
	h.keep(
		audit.Line{
			Actor:  "kim",
			Action: "approve",
			Tool:   "fs:read_file",
			From:   now,
			Hash:   "0123456789abcdef",
		},
	)
	page := h.Page(http.StatusOK, "/admin/audit?actor=kim")
	link := "../admin/tools/fs/read_file?from=" + string(before) + "&amp;to=" + string(now)
	if !strings.Contains(page, `href="`+link+`"`) || strings.Count(page, "?from=") != 1 {
		t.Errorf("page = %s", page)
	}
	if diff := h.Page(http.StatusOK, "/"+strings.ReplaceAll(strings.TrimPrefix(link, "../"), "&amp;", "&")); !strings.Contains(
		diff,
		"Once",
	) {
		t.Errorf("the link leads to %s", diff)
	}
}

func TestAuditPagePaging(t *testing.T) {
	h := newFixture(t)
	start := h.Clock.Now()
	for n := range 120 {
		login := audit.Line{Actor: "kim", Action: audit.ActionLogin, Note: fmt.Sprint("n", n)}
		login.Time = start.Add(time.Duration(n) * time.Second)
		h.keep(login)
	}
	seen, pages := h.walk("/admin/audit?actor=kim", `“(n\d+)”`)
	if once(t, seen, 120); pages != 3 {
		t.Errorf("%d pages", pages)
	}
	next := nextOne.FindStringSubmatch(h.Page(http.StatusOK, "/admin/audit?actor=kim"))
	newer := audit.Line{Time: start.Add(time.Hour), Actor: "kim", Action: audit.ActionLogout}
	h.keep(newer) // must not move an older line to another page
	page := h.Page(http.StatusOK, "/"+strings.TrimLeft(html.UnescapeString(next[1]), "./"))
	says(t, page, "“n69”", "“n20”", ">Newest</a>")
	lacks(t, page, "“n70”")
}

func TestAuditPageWithoutAPart(t *testing.T) {
	h := newFixture(t)
	h.Decide.CallStore = "s3://bucket/audit/ · <b>"
	h.Open()
	h.keep(audit.Line{Actor: "kim", Action: audit.ActionStop, Subject: "all"})
	h.Approvals.OnAudit = func(context.Context, string) error { return errors.New("arn:swordfish") }
	page := h.Page(http.StatusOK, "/admin/audit")
	if !strings.Contains(page, "This page lacks decisions about tools, prompts and resources") ||
		!strings.Contains(page, "stopped") ||
		strings.Contains(page, "swordfish") ||
		!strings.Contains(page, "They are in s3://bucket/audit/ · &lt;b&gt;.") {
		t.Errorf("page = %s", page)
	}
	h.Deeds.OnRead = func() error { return errors.New("arn:swordfish") }
	lacks(t, h.Page(http.StatusInternalServerError, "/admin/audit"), "swordfish")
}

// Without a choice the page leaves out the lines of syncs. With them, it has one line for each
// server and sync.
func TestAuditPageFoldsSyncs(t *testing.T) {
	h := newFixture(t)
	start := h.Clock.Now().Add(time.Hour)
	h.ByName["fs"].Tools = append(h.ByName["fs"].Tools, `{"name":"a"}`, `{"name":"b"}`)
	h.Clock.Set(start, time.Millisecond)
	h.Sync()
	h.keep(audit.Line{Time: start.Add(time.Minute), Actor: "kim", Action: audit.ActionLogin})
	page := h.Page(
		http.StatusOK,
		"/admin/audit?since="+start.Add(-time.Minute).Format(time.RFC3339),
	)
	says(t, page, "<b>kim</b>", "Show syncs")
	lacks(t, page, ">sync</span>", "fs:a")
	page = h.Page(
		http.StatusOK,
		"/admin/audit?sync=show&since="+start.Add(-time.Minute).Format(time.RFC3339),
	)
	says(
		t,
		page,
		`<span class="dim">sync</span><td>sync of a server<div class="hint">2 lines: 2× seen for the first time</div><td><a href="../admin/servers/fs">fs</a>`,
		"<b>kim</b>",
		"Leave them out",
	)
	lacks(t, page, "fs:a")
	if old := h.Page(http.StatusOK, "/admin/audit?actor=sync"); !strings.Contains(
		old,
		">sync</span>",
	) {
		t.Errorf("the filter sync finds nothing: %s", old)
	}
}

// The page checks the days that it shows, and offers their files. Everybody who may read the audit
// may do both.
func TestAuditPageOfAChain(t *testing.T) {
	h := newFixture(t)
	h.Console.Actor = func(*http.Request) (decide.Actor, error) {
		return decide.Actor{Name: "vic", Rights: identity.Rights{Role: identity.Viewer}}, nil
	}
	call := audit.Line{
		V:        1,
		Kind:     audit.KindCall,
		Time:     h.Clock.Now(),
		Agent:    "<b>",
		Tool:     "fs:x",
		Decision: audit.Allowed,
	}
	days := auditDays(t, call, call)
	h.Decide.Calls, h.Decide.Days = days, days
	h.Open()
	page := h.Page(http.StatusOK, "/admin/audit?since=24h")
	m := regexp.MustCompile(`href="\.\./(admin/audit\?check=1[^"]*)#chain">Verify`).
		FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("no check: %s", page)
	}
	says(
		t,
		h.Page(http.StatusOK, "/"+html.UnescapeString(m[1])),
		"2 lines of 1 day: each contains the hash of the line before it",
		"The hash of the last checked line is <code>",
	)
	m = regexp.MustCompile(`href="\.\./(admin/audit/evidence\.zip\?[^"]*)"`).
		FindStringSubmatch(page)
	a := h.Send("/"+html.UnescapeString(m[1]), "", admintest.Browser)
	if a.Status != http.StatusOK || !strings.HasPrefix(a.Body, "PK") ||
		a.Header.Get(
			"Content-Disposition",
		) != `attachment; filename="portcullis-evidence-2026-11-20.zip"` {
		t.Errorf("%d, %v", a.Status, a.Header)
	}
	says(
		t,
		h.Page(http.StatusNotFound, "/admin/audit/evidence.zip?until=2020-01-01"),
		"The audit has no file of these days",
	)

	file := filepath.Join(string(days.Folder()), "2026-11-20.jsonl")
	raw, err := os.ReadFile(file)
	require.OK(t, err)
	require.OK(
		t,
		os.WriteFile(file, []byte(strings.Replace(string(raw), "fs:x", "fs:y", 1)), 0o600),
	)
	says(
		t,
		h.Page(http.StatusOK, "/admin/audit?check=1"),
		"1 place where a line was changed",
		"2026-11-20.jsonl, line 2: it does not follow the line before it",
	)
}

// On AWS the page links to the consoles that have the calls, with a query for its filter.
func TestAuditPageOnAWS(t *testing.T) {
	h := newFixture(t)
	h.Decide.CallStore = "s3://bucket/audit/, Athena table portcullis_audit"
	h.Decide.CallLinks = []decide.CallLink{
		{
			Name:  "Insights",
			Group: "/aws/lambda/mcp",
			URL:   "https://eu-central-1.console.aws.amazon.com/x",
		},
		{Name: "Athena", URL: "https://athena.example.com/"},
	}
	h.Open()
	page := h.Page(
		http.StatusOK,
		"/admin/audit?actor=token%3Aci&tool=fs:x&server=a.b&action=locked",
	)
	says(
		t,
		page,
		`<a href="https://eu-central-1.console.aws.amazon.com/x" rel="noreferrer">Insights</a>`,
		`<a href="https://athena.example.com/" rel="noreferrer">Athena</a>`,
		"<code>/aws/lambda/mcp</code>",
		`| filter agent = &#34;token:ci&#34; or human = &#34;token:ci&#34;`,
		`| filter decision = &#34;locked&#34;`,
		`| filter tool = &#34;fs:x&#34;`,
		`| filter tool like /^a\.b:/`,
	)
	lacks(t, page, "data-follow", "Verify", "evidence.zip")
}
