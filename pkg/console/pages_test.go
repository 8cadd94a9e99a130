package console_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/decide"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
	"github.com/portcullis-mcp/portcullis/test/admintest"
)

// buttons returns the actions that a page offers.
func buttons(page string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`<button name="action" value="(\w+)"`).FindAllStringSubmatch(page, -1) {
		out = append(out, m[1])
	}
	return out
}

// press sends the page's form as a browser does, with the hash that stands in it.
func (h *fixture) press(path, page, action string) (status int, body string) {
	h.T.Helper()
	m := regexp.MustCompile(`name="hash" value="([0-9a-f]*)"`).FindStringSubmatch(page)
	if m == nil {
		h.T.Fatalf("%s has no form", path)
	}
	rev := regexp.MustCompile(`name="rev" value="([0-9]+)"`).FindStringSubmatch(page)
	if rev == nil {
		h.T.Fatalf("the form of %s names no revision", path)
	}
	form := url.Values{"action": {action}, "hash": {m[1]}, "rev": {rev[1]}, "note": {"from the page"}}
	w := h.Send(path, form.Encode(), browser, "Content-Type: application/x-www-form-urlencoded",
		"Origin: https://gate.example.com", "Sec-Fetch-Site: same-origin")
	if w.Status == http.StatusSeeOther {
		back, err := url.Parse("https://gate.example.com" + path)
		if err != nil {
			h.T.Fatal(err)
		}
		to, err := back.Parse(w.Header.Get("Location"))
		if err != nil || to.Path != back.Path {
			h.T.Errorf("after the form it goes to %v, %v; want the page again", to, err)
		}
	}
	return w.Status, w.Body
}

func TestToolPageDecides(t *testing.T) {
	h := newFixture(t)
	link := admintest.Into[decide.Tool](h.Desk, "/admin/tools/mail/send", "").Remediation
	link = link[strings.LastIndex(link, "https://gate.example.com")+len("https://gate.example.com"):]
	page := h.Page(http.StatusOK, link)
	for _, want := range []string{"mail:send", "pending approval", "9007199254740993"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q does not stand on the page", want)
		}
	}
	if diff := cmp.Diff([]string{"approve", "disable"}, buttons(page)); diff != "" {
		t.Errorf("buttons (-want +got):\n%s", diff)
	}
	if status, body := h.press(link, page, "approve"); status != http.StatusSeeOther {
		t.Fatalf("approve = %d %s", status, body)
	}
	if s := h.Status("mail:send"); s != lock.None {
		t.Errorf("status = %q", s)
	}
	r, err := h.Approvals.Get(t.Context(), tool.ID{Server: "mail", Name: "send"})
	if err != nil || r.By != "ann" || r.Note != "from the page" {
		t.Errorf("record = %+v, %v", r, err)
	}
	for _, step := range []struct {
		press string
		want  lock.Status
		then  []string
	}{
		{"disable", lock.DisabledByUser, []string{"enable"}},
		{"enable", lock.None, []string{"disable"}},
	} {
		if status, body := h.press(link, h.Page(http.StatusOK, link), step.press); status != http.StatusSeeOther {
			t.Fatalf("%s = %d %s", step.press, status, body)
		}
		if s := h.Status("mail:send"); s != step.want {
			t.Errorf("after %s: status %q, want %q", step.press, s, step.want)
		}
		if diff := cmp.Diff(step.then, buttons(h.Page(http.StatusOK, link))); diff != "" {
			t.Errorf("buttons after %s (-want +got):\n%s", step.press, diff)
		}
	}
}

func TestToolPageChanged(t *testing.T) {
	h := newFixture(t)
	h.ByName["fs"].Tools[0] = `{"name":"read_file","description":"Second."}`
	h.Sync()
	page := h.Page(http.StatusOK, "/admin/tools/fs/read_file")
	if !strings.Contains(page, "Approved before") || !strings.Contains(page, "Reads a file. Twice.") || !strings.Contains(page, "Second.") {
		t.Errorf("page = %s", page)
	}
	marked := regexp.MustCompile(`(?s)<mark>(.*?)</mark>`).FindAllStringSubmatch(html.UnescapeString(page), -1)
	if len(marked) != 2 || strings.Contains(marked[1][1], "read_file") || strings.TrimSpace(marked[1][1]) != `"description": "Second."` {
		t.Errorf("marked = %q, want what differs", marked)
	}
	h.ByName["fs"].Tools[0] = `{"name":"read_file","description":"Third."}`
	h.Sync()
	status, body := h.press("/admin/tools/fs/read_file", page, "approve")
	if status != http.StatusConflict || !strings.Contains(body, "changed since it was shown") || !strings.Contains(body, "Third.") {
		t.Errorf("approving what was seen before = %d %s", status, body)
	}
	if s := h.Status("fs:read_file"); s != lock.PendingApproval {
		t.Errorf("status = %q", s)
	}
}

// A definition that was approved once and then replaced waits when it comes back, and the
// person who decides is told of it.
func TestToolApprovedEarlier(t *testing.T) {
	h := newFixture(t)
	const path = "/admin/tools/mail/send"
	first := h.ByName["mail"].Tools[0]
	admintest.Into[decide.Tool](h.Desk, path+"/approve", approveBody(h.Hash("mail/send")))
	h.ByName["mail"].Tools[0] = `{"name":"send","title":"Newer"}`
	h.Sync()
	if x := admintest.Into[decide.Tool](h.Desk, path, ""); x.Record.Earlier != nil {
		t.Errorf("a new definition was approved earlier: %+v", x.Record.Earlier)
	}
	admintest.Into[decide.Tool](h.Desk, path+"/approve", approveBody(h.Hash("mail/send")))
	h.ByName["mail"].Tools[0] = first
	h.Sync()
	x := admintest.Into[decide.Tool](h.Desk, path, "")
	if x.Status != "pending_approval" || x.Record.Earlier == nil || x.Record.Earlier.By != "ann" || x.Record.Earlier.At.IsZero() {
		t.Errorf("%s, approved earlier %+v", x.Status, x.Record.Earlier)
	}
	if page := h.Page(http.StatusOK, path); !strings.Contains(page, "approved earlier by ann on 20 Nov 2026") {
		t.Errorf("the page does not say so:\n%s", page)
	}
}

func TestToolPageText(t *testing.T) {
	h := newFixture(t)
	h.ByName["mail"].Tools = []string{
		"{\"name\":\"send\",\"description\":\"</pre><script>alert(1)</script><img src=x onerror=y> \u202egnp.exe\u200b \U000E0041\U000E0042 a\ufe0f\u3164é 邮件\"}",
	}
	h.Sync()
	page := h.Page(http.StatusOK, "/admin/tools/mail/send")
	for _, bad := range []string{"<script>", "<img", "\u202e", "\u200b", "\U000E0041", "\ufe0f", "\u3164"} {
		if strings.Contains(page, bad) {
			t.Errorf("%q reaches the page", bad)
		}
	}
	text := html.UnescapeString(page)
	for _, want := range []string{"⟨U+202E⟩gnp.exe⟨U+200B⟩ ⟨U+E0041⟩⟨U+E0042⟩ a⟨U+FE0F⟩⟨U+3164⟩é 邮件", "<script>alert(1)</script>"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not stand on the page", want)
		}
	}
}

func TestPageSecurityPolicy(t *testing.T) {
	h := newFixture(t)
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	for path, root := range map[string]string{"/admin": "./", "/admin/tools/fs/read_file": "../../../"} {
		w := h.Send(path, "", browser)
		if got := w.Header.Get("Content-Security-Policy"); got != policy {
			t.Errorf("%s: policy %q", path, got)
		}
		for _, bad := range []string{"<script>", "style=", "<style", "http://", "//cdn", " onclick"} {
			if strings.Contains(w.Body, bad) {
				t.Errorf("%s has %q", path, bad)
			}
		}
		assets := regexp.MustCompile(`(?:href|src)="`+regexp.QuoteMeta(root)+`(admin/assets/[^"]+)"`).FindAllStringSubmatch(w.Body, -1)
		if len(assets) != 3 {
			t.Fatalf("%s loads %q", path, assets)
		}
		for _, m := range assets {
			kind := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}[m[1][strings.LastIndex(m[1], "."):]]
			a := h.Send("/"+m[1], "")
			if a.Status != http.StatusOK || a.Header.Get("Content-Type") != kind || !strings.Contains(a.Header.Get("Cache-Control"), "immutable") || a.Body == "" {
				t.Errorf("%s = %d %s, kept %q", m[1], a.Status, a.Header.Get("Content-Type"), a.Header.Get("Cache-Control"))
			}
		}
	}
}

func TestToolPageDenied(t *testing.T) {
	h := newFixture(t)
	page := h.Page(http.StatusOK, "/admin/tools/mail/read_drafts")
	if diff := cmp.Diff([]string{"disable"}, buttons(page)); diff != "" {
		t.Errorf("buttons of a denied tool (-want +got):\n%s", diff)
	}
	for _, want := range []string{"no-drafts", "Drafts are private.", "#mail-owners"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q does not stand on the page", want)
		}
	}
	if status, _ := h.press("/admin/tools/mail/read_drafts", page, "approve"); status != http.StatusConflict {
		t.Errorf("approve = %d, want %d", status, http.StatusConflict)
	}
	for _, form := range []string{
		"rev=1&action=open", "rev=1&action=", "hash=x", "%zz", "action=disable", "action=disable&rev=", "action=disable&rev=x", "action=disable&rev=0",
		"rev=1&action=disable&note=" + strings.Repeat("x", approval.MaxNote+1), "rev=1&action=disable&note=" + strings.Repeat("x", 1<<17),
	} {
		w := h.Send("/admin/tools/fs/read_file", form, browser, "Content-Type: application/x-www-form-urlencoded")
		if w.Status != http.StatusBadRequest {
			t.Errorf("form %.30q = %d, want 400", form, w.Status)
		}
	}
	if s := h.Status("fs:read_file"); s != lock.None {
		t.Errorf("status = %q", s)
	}
}

func TestToolPageMissing(t *testing.T) {
	h := newFixture(t)
	page := h.Page(http.StatusNotFound, "/admin/tools/mail/<b>nope")
	if !strings.Contains(page, "No tool of this name is known") || strings.Contains(page, "<b>nope") {
		t.Errorf("page = %s", page)
	}
	w := h.Send("/admin/tools/mail/nope", "action=disable&rev=1", browser, "Content-Type: application/x-www-form-urlencoded")
	if w.Status != http.StatusNotFound {
		t.Errorf("form = %d", w.Status)
	}
}

// Two people, or one with two tabs, look at the same tool. What the one decides, the other
// sees before he decides.
func TestFormOfAnEarlierRevision(t *testing.T) {
	h := newFixture(t)
	const path = "/admin/tools/mail/send"
	shown := h.Page(http.StatusOK, path)
	h.Clock.Wait(time.Minute)
	if status, body := h.press(path, h.Page(http.StatusOK, path), "disable"); status != http.StatusSeeOther {
		t.Fatalf("disable = %d %s", status, body)
	}
	status, body := h.press(path, shown, "approve")
	for _, want := range []string{"nothing was decided", "it is disabled", "by ann, at 2026-11-20 12:01:00 UTC", `value="from the page"`, `value="approve"`, `value="enable"`} {
		if status != http.StatusConflict || !strings.Contains(body, want) {
			t.Errorf("%d, %q does not stand on the page: %s", status, want, body)
		}
	}
	for _, action := range []string{"disable", "enable"} {
		if status, _ := h.press(path, shown, action); status != http.StatusConflict {
			t.Errorf("%s = %d", action, status)
		}
	}
	r, err := h.Approvals.Get(t.Context(), tool.ID{Server: "mail", Name: "send"})
	if err != nil || r.ApprovedHash != "" || !r.Disabled || r.Rev != 2 {
		t.Errorf("record = %+v, %v; want it disabled and not approved", r, err)
	}
	if status, body := h.press(path, body, "approve"); status != http.StatusSeeOther {
		t.Errorf("the page that says so approves nothing: %d %s", status, body)
	}
}

func TestAccept(t *testing.T) {
	h := newFixture(t)
	for accept, want := range map[string]string{
		"":                                      "application/json",
		"*/*":                                   "application/json",
		"application/json":                      "application/json",
		"application/json, text/html;q=0.1":     "application/json",
		"text/html":                             "text/html; charset=utf-8",
		strings.TrimPrefix(browser, "Accept: "): "text/html; charset=utf-8",
	} {
		w := h.Send("/admin/tools/fs/read_file", "", "Accept: "+accept)
		if got := w.Header.Get("Content-Type"); got != want || w.Header.Get("Vary") != "Accept" {
			t.Errorf("Accept %q: %q, Vary %q, want %q", accept, got, w.Header.Get("Vary"), want)
		}
	}
}
