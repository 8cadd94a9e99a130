package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/admintest"
)

func TestServers(t *testing.T) {
	h := newFixture(t)
	h.ByName["mail"].Outcome = outcome.Outcome{Status: outcome.Denied, Reason: "forbidden", HTTPStatus: 403, Error: "403 from <the> mail host"}
	h.ByName["fs"].Tools = append(h.ByName["fs"].Tools, `{"name":"no <b>good"}`)
	h.Sync()
	says(t, h.Page(http.StatusOK, "/admin/servers"),
		`href="../admin/servers/fs"><b>fs</b></a>`, `href="../admin/tools?server=fs&amp;status=callable" class="chip callable">callable 1</a>`,
		`<span class="chip denied">denied</span>`, "was denied", "1 refused definition", `<span class="chip">off</span>`, "Sync now", `action="../admin/sync"`)
	says(t, h.Page(http.StatusOK, "/admin/servers/mail"),
		"403 from &lt;the&gt; mail host", "<dt>Reason<dd>forbidden", "<dt>HTTP status<dd>403", "<dt>Host<dd>https://mail.example.com", "<dt>Approval<dd>manual", "<dt>Last success<dd><time")
	page := h.Page(http.StatusOK, "/admin/servers/fs")
	says(t, page, "Refused", "no &lt;b&gt;good", "<code>format_*</code>", `href="../../admin/tools?server=fs"`)
	lacks(t, page, "fs.example.com/mcp")
	h.Page(http.StatusNotFound, "/admin/servers/nope")
	h.Page(http.StatusUnprocessableEntity, "/admin/servers?status=callable")
	says(t, h.Send("/admin/servers/fs", "").Body, `"settings":`)
}

func TestServersPaging(t *testing.T) {
	h := &fixture{Fixture: admintest.WithMany(t, 130, 1)}
	seen, pages := h.walk("/admin/servers", `<a href="\.\./admin/servers/(server-\d+)`)
	if once(t, seen, 130); pages != 3 {
		t.Errorf("%d pages", pages)
	}
}

// starter starts a sync that runs in another process.
type starter struct{}

func (starter) Sync(context.Context) (catalog.Report, error) {
	return catalog.Report{}, decide.ErrStarted
}

func (s starter) SyncServers(ctx context.Context, _ []string) (catalog.Report, error) {
	return s.Sync(ctx)
}

func TestSync(t *testing.T) {
	t.Run("here", func(t *testing.T) {
		h := newFixture(t)
		h.ByName["mail"].Tools = append(h.ByName["mail"].Tools, `{"name":"more"}`)
		w := h.Submit("/admin/sync", url.Values{"csrf": {""}})
		if w.Status != http.StatusSeeOther || w.Header.Get("Location") != "./servers?changed=0&new=1&sync=done" {
			t.Fatalf("%d to %q: %s", w.Status, w.Header.Get("Location"), w.Body)
		}
		says(t, h.Page(http.StatusOK, "/admin/servers?changed=0&new=1&sync=done"), "1 new item, 0 changed ones")
		says(t, h.Page(http.StatusOK, "/admin/servers/mail"), "pending approval 2")
	})
	t.Run("elsewhere", func(t *testing.T) {
		h := newFixture(t)
		h.OpenWith(starter{})
		w := h.Submit("/admin/sync", url.Values{"csrf": {""}})
		if w.Status != http.StatusSeeOther || w.Header.Get("Location") != "./servers?sync=started" {
			t.Fatalf("%d to %q", w.Status, w.Header.Get("Location"))
		}
		says(t, h.Page(http.StatusOK, "/admin/servers?sync=started"), "started in another process")
	})
	t.Run("fails", func(t *testing.T) {
		h := newFixture(t)
		h.Put(config.Key, strings.Replace(admintest.Config, `"approval": "manual"`, `"required": true`, 1))
		h.ByName["mail"].Outcome = outcome.Outcome{Status: outcome.Permanent, Reason: "tls", Error: "x509"}
		w := h.Submit("/admin/sync", url.Values{"csrf": {""}})
		if w.Status != http.StatusBadGateway {
			t.Errorf("%d", w.Status)
		}
		says(t, w.Body, "A required server did not load; the old catalog stays.", "<b>mail</b>")
	})
	t.Run("nowhere", func(t *testing.T) {
		h := newFixture(t)
		h.OpenWith(nil)
		lacks(t, h.Page(http.StatusOK, "/admin/servers"), "Sync now")
		if w := h.Submit("/admin/sync", url.Values{"csrf": {""}}); w.Status != http.StatusNotImplemented {
			t.Errorf("%d", w.Status)
		}
	})
}

func TestConfig(t *testing.T) {
	h := newFixture(t)
	page := h.Page(http.StatusOK, "/admin/config")
	says(t, page, "mcpServers.fs.disabled_tools[0]", `href="../admin/tools?server=fs&amp;status=disabled_by_config">1 tool</a>`, "policy.cedar:1 no-drafts", "mail:read_drafts", `<span class="chip ok">ok</span>`)
	lacks(t, page, "To fix", "were lost", "refused")
	h.Put(config.Key, `{"mcpServers": {"fs": {"url": "https://fs.example.com/mcp", "oops<i>": 1}}}`)
	h.States.Refresh(t.Context())
	says(t, h.Page(http.StatusOK, "/admin/config"), "To fix", "Stored, and refused", "<b>line 1, column ", "oops&lt;i&gt;", "Fix the file.", `<span class="chip degraded">degraded</span>`)
	says(t, h.Send("/admin/config", "").Body, `"rules":`)
}

// The page stays bounded for any content of the files.
func TestConfigSize(t *testing.T) {
	h := newFixture(t)
	var rules strings.Builder
	for n := range 400 {
		fmt.Fprintf(&rules, "@id(%q)\nforbid (principal, action, resource == Tool::\"mail:send\");\n", fmt.Sprintf("%s-%d", strings.Repeat("rule", 12), n))
	}
	h.Forbid(rules.String())
	h.Sync()
	says(t, h.small("/admin/config"), "and 351 more rules")
}

func TestConfigLostRecords(t *testing.T) {
	h := newFixture(t)
	h.RestoreOldStore()
	h.Sync()
	says(t, h.Page(http.StatusOK, "/admin/config"), "1 approval record was lost", `action="../admin/approvals/restore"`, `action="../admin/approvals/accept"`)
	list := admintest.Into[decide.Page](h.Fixture, "/admin/tools?server=fs", "")
	if lost := list.Tools[1]; lost.ID != "fs:read_file" || !lost.Lost {
		t.Errorf("the row of the tool whose record was lost: %+v", lost)
	}
	w := h.Submit("/admin/approvals/accept", url.Values{"csrf": {""}})
	if w.Status != http.StatusSeeOther || w.Header.Get("Location") != "../config?settled=1" {
		t.Fatalf("%d to %q", w.Status, w.Header.Get("Location"))
	}
	page := h.Page(http.StatusOK, "/admin/config?closed=2&open=1&settled=1&skipped=3")
	says(t, page, "Decided about 1 approval record. 2 later actions of the audit",
		"1 later action of the audit unlocked an item: that has no effect", "3 places of the audit cannot be trusted")
	lacks(t, page, "were lost")
}

func TestHistoryPage(t *testing.T) {
	h := newFixture(t)
	hash := string(h.Hash("mail/send"))
	says(t, h.Page(http.StatusOK, "/admin/tools/mail/send/history"), "seen for the first time; it waits for approval")
	admintest.Into[decide.Tool](h.Fixture, "/admin/tools/mail/send/approve", approveBody(h.Hash("mail/send")))
	h.ByName["mail"].Tools[0] = `{"name":"send","description":"Sends."}`
	h.Sync()
	page := h.Page(http.StatusOK, "/admin/tools/mail/send/history")
	says(t, page, `<a href="../../../../admin/tools/mail/send">mail:send</a>`, "<b>ann</b> · approved", `<div class="hint">“seen”</div>`, "the definition changed",
		"?from="+hash+"&amp;to=", "<code>"+hash[:12]+"</code> → ", "seen for the first time")
	lacks(t, page, "it waits")
	h.Page(http.StatusNotFound, "/admin/tools/mail/nope/history")
	h.Page(http.StatusUnprocessableEntity, "/admin/tools/mail/send/history?after=x")
	h.Page(http.StatusUnprocessableEntity, "/admin/tools/mail/send/history?status=callable")
	says(t, h.Send("/admin/tools/mail/send/history", "").Body, `"events":`)
	for range 60 {
		admintest.Into[decide.Tool](h.Fixture, "/admin/tools/mail/send/disable", `{}`)
	}
	page = h.Page(http.StatusOK, "/admin/tools/mail/send/history")
	m := regexp.MustCompile(`<a href="\.\./\.\./\.\./\.\.(/admin/[^"]+history\?after=[^"]+)" rel="next">Older`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("no older page: %s", page)
	}
	says(t, h.Page(http.StatusOK, m[1]), "seen for the first time", "Newest")
}

// A new item waits only if its server's approval mode requires an approval.
func TestHistoryWithoutApproval(t *testing.T) {
	h := newFixture(t)
	h.Serve("free", `{"name":"look"}`)
	h.Put(config.Key, `{"mcpServers": {"free": {"url": "https://free.example.com/mcp", "approval": "off"}}}`)
	h.Sync()
	says(t, h.Page(http.StatusOK, "/admin/tools/free/look"), `<button formaction="../../../admin/tools/free/look/approve`) // the button is not highlighted, because nothing waits
	for _, path := range []string{"/admin/tools/free/look/history", "/admin/audit?sync=show"} {
		page := h.Page(http.StatusOK, path)
		says(t, page, "seen for the first time")
		lacks(t, page, "it waits")
	}
}
