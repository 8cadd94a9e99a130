package console_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
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
	h.keep(audit.Line{Actor: "kim", Action: audit.ActionStop, Subject: "server:mail", Note: "it leaks", Source: "192.0.2.9"})
	before := h.Hash("fs/read_file")
	h.ByName["fs"].Tools[0] = strings.Replace(h.ByName["fs"].Tools[0], "Twice", "Once", 1)
	h.Sync()
	now := h.Hash("fs/read_file")
	w := h.Submit("/admin/tools/fs/read_file/approve", url.Values{"hash": {string(now)}, "rev": {h.Field(h.Page(http.StatusOK, "/admin/tools/fs/read_file"), "rev")}, "note": {"fine"}})
	if w.Status != http.StatusSeeOther {
		t.Fatalf("%d %s", w.Status, w.Body)
	}
	page := h.Page(http.StatusOK, "/admin/audit")
	says(t, page,
		`<a href="../admin/audit" aria-current="page">Audit</a>`, "<b>kim</b> · stopped · server:mail", "“it leaks” from 192.0.2.9",
		`<b>ann</b> · approved · <a href="../admin/tools/fs/read_file">fs:read_file</a>`, string(before[:12]), string(now[:12]), "“fine”",
		`href="../admin/audit.csv"`, `href="../admin/audit.jsonl"`,
	)
	lacks(t, page, `rel="next"`)
	filtered := h.Page(http.StatusOK, "/admin/audit?actor=kim&kind=deed&since=24h&tool=&until=")
	if !strings.Contains(filtered, "it leaks") || strings.Contains(filtered, "fs:read_file") || !strings.Contains(filtered, `name="actor" value="kim"`) || !strings.Contains(filtered, `<option value="deed" selected>`) ||
		!strings.Contains(filtered, `href="../admin/audit.csv?actor=kim&amp;kind=deed&amp;since=24h"`) {
		t.Errorf("page = %s", filtered)
	}
	if empty := h.Page(http.StatusOK, "/admin/audit?actor=nobody"); !strings.Contains(empty, "No line matches the filter") {
		t.Errorf("page = %s", empty)
	}
	for _, wrong := range []string{"since=yesterday", "kind=x", "who=kim", "after=x"} {
		if page := h.Page(http.StatusUnprocessableEntity, "/admin/audit?"+wrong); !strings.Contains(page, "it takes") && !strings.Contains(page, "use only") && !strings.Contains(page, "begin again without it") {
			t.Errorf("%s: %s", wrong, page)
		}
	}
}

// A line about a request names the agent and links to the request, and each action has its own
// wording.
func TestAuditPageOfRequests(t *testing.T) {
	h := newFixture(t)
	about := audit.Line{Actor: "kim", Tool: "mail:send", Subject: "agent:token:ci", Request: "R-7KQ2M4XD"}
	for action, words := range map[string]string{
		audit.ActionAsked: "requested access", audit.ActionWithdrawn: "withdrew a request", audit.ActionDecided: "decided a request",
		audit.ActionUnsent: "people could not be notified for a day", approval.ActionPropose: "approved as the first of two people; it waited for the second",
	} {
		about.Action = action
		h.keep(about)
		page := h.Page(http.StatusOK, "/admin/audit?action="+action)
		says(t, page, "<b>kim</b> for token:ci · "+words+` · <a href="../admin/tools/mail/send">mail:send</a> · <a href="../admin/requests/R-7KQ2M4XD">R-7KQ2M4XD</a>`)
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
	h.keep(audit.Line{Actor: "kim", Action: "approve", Tool: "fs:read_file", From: before, Hash: now})
	h.keep(audit.Line{Actor: "kim", Action: "approve", Tool: "fs:read_file", From: now, Hash: "0123456789abcdef"})
	page := h.Page(http.StatusOK, "/admin/audit?actor=kim")
	link := "../admin/tools/fs/read_file?from=" + string(before) + "&amp;to=" + string(now)
	if !strings.Contains(page, `href="`+link+`"`) || strings.Count(page, "?from=") != 1 {
		t.Errorf("page = %s", page)
	}
	if diff := h.Page(http.StatusOK, "/"+strings.ReplaceAll(strings.TrimPrefix(link, "../"), "&amp;", "&")); !strings.Contains(diff, "Once") {
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
	if !strings.Contains(page, "This page lacks decisions about tools, prompts and resources") || !strings.Contains(page, "stopped") || strings.Contains(page, "swordfish") || !strings.Contains(page, "They are in s3://bucket/audit/ · &lt;b&gt;.") {
		t.Errorf("page = %s", page)
	}
	h.Deeds.OnRead = func() error { return errors.New("arn:swordfish") }
	lacks(t, h.Page(http.StatusInternalServerError, "/admin/audit"), "swordfish")
}
