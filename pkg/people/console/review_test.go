package console_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/admintest"
)

// buttons returns the actions that a page offers.
func buttons(page string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`<button[^>]* formaction="[^"]*" value="(\w+)"`).FindAllStringSubmatch(page, -1) {
		out = append(out, m[1])
	}
	return out
}

// press sends the page's form as a browser does, with the page's hash. It stores the target of the
// redirect in Location.
func (h *fixture) press(path, page, action string) (status int, body string) {
	h.T.Helper()
	page = page[max(0, strings.Index(page, `id="decide"`)):]
	m := regexp.MustCompile(`name="hash" value="([0-9a-f]*)"`).FindStringSubmatch(page)
	if m == nil {
		h.T.Fatalf("%s has no form", path)
	}
	rev := regexp.MustCompile(`name="rev" value="([0-9]+)"`).FindStringSubmatch(page)
	if rev == nil {
		h.T.Fatalf("the form of %s names no revision", path)
	}
	form := url.Values{"hash": {m[1]}, "rev": {rev[1]}, "note": {"from the page"}}
	at, query, _ := strings.Cut(path, "?")
	w := h.Submit(at+"/"+action+"?"+query, form)
	h.Location = w.Header.Get("Location")
	return w.Status, w.Body
}

func TestDecide(t *testing.T) {
	h := newFixture(t)
	link := admintest.Into[decide.Tool](h.Fixture, "/admin/tools/mail/send", "").Remediation
	link = link[strings.LastIndex(link, "https://gate.example.com")+len("https://gate.example.com"):]
	page := h.Page(http.StatusOK, link)
	says(
		t,
		page,
		"mail:<b>send</b>",
		"pending approval",
		"1 of 1",
		"Agents see: Tool is disabled",
		"Queue:",
		"Approve <code ",
	)
	says(t, h.Page(http.StatusOK, link+"?view=raw"), "9007199254740993")
	for _, step := range []struct {
		press string
		want  lock.Status
		then  []string
		to    string // suffix of the target address, without the revision
	}{
		{"approve", lock.None, []string{"block", "disable"}, "admin/tools?did=approve&rev=2&status=pending_approval&tool=mail%3Asend"},
		{"disable", lock.DisabledByUser, []string{"block", "enable"}, "mail/send?did=disable&rev=3&status=pending_approval&tool=mail%3Asend"},
		{"enable", lock.None, []string{"block", "disable"}, "mail/send?did=enable&rev=4&status=pending_approval&tool=mail%3Asend"},
		{"block", lock.DisabledByUser, []string{"unblock", "disable", "approve"}, "mail/send?did=block&rev=5&status=pending_approval&tool=mail%3Asend"},
		{"unblock", lock.PendingApproval, []string{"block", "disable", "approve"}, "mail/send?did=unblock&rev=6&status=pending_approval&tool=mail%3Asend"},
		{"undo", lock.DisabledByUser, []string{"unblock", "disable", "approve"}, "mail/send?did=undo&rev=7&status=pending_approval&tool=mail%3Asend"},
	} {
		if status, body := h.press(link, h.Page(http.StatusOK, link), step.press); status != http.StatusSeeOther || !strings.HasSuffix(h.Location, step.to) {
			t.Fatalf("%s = %d to %s %s", step.press, status, h.Location, body)
		}
		if s := h.Status("mail:send"); s != step.want {
			t.Errorf("after %s: status %q, want %q", step.press, s, step.want)
		}
		if diff := cmp.Diff(step.then, buttons(h.Page(http.StatusOK, link))); diff != "" {
			t.Errorf("buttons after %s (-want +got):\n%s", step.press, diff)
		}
	}
	r, err := h.Approvals.Get(t.Context(), tool.ID{Server: "mail", Name: "send"})
	if err != nil || r.By != "ann" || r.Note != "from the page" {
		t.Errorf("record = %+v, %v", r, err)
	}
}

// After a decision the next tool of the queue follows, with a message about the decision and a
// button to undo it.
func TestDecideLeadsOn(t *testing.T) {
	h := withWaiting(t)
	const query = "?server=mail&status=pending_approval"
	path, order := "/admin/tools/mail/wipe"+query, []string{"1 of 4", "1 of 3", "1 of 2", "1 of 1"}
	for n, place := range order {
		page := h.Page(http.StatusOK, path)
		says(t, page, place, `autofocus>mail:<b>`)
		if n > 0 {
			says(t, page, "Approved mail:", `<button value="undo" data-go="u">Undo</button>`)
		}
		at, _, _ := strings.Cut(path, "?")
		if status, body := h.press(at+query, page, "approve"); status != http.StatusSeeOther {
			t.Fatalf("approve %s = %d %s", path, status, body)
		}
		path = "/" + strings.TrimLeft(h.Location, "./")
	}
	if !strings.HasPrefix(path, "/admin/tools?") {
		t.Fatalf("after the last decision the redirect goes to %s", path)
	}
	page := h.Page(http.StatusOK, path)
	says(t, page, "Nothing waits here", "Approved mail:a3.")
	undo := regexp.MustCompile(`action="\.\./([^"]+/undo[^"]*)"><input type="hidden" name="rev" value="(\d+)"`).FindStringSubmatch(page)
	if undo == nil {
		t.Fatalf("no undo on %s", page)
	}
	w := h.Submit("/"+html.UnescapeString(undo[1]), url.Values{"rev": {undo[2]}})
	if w.Status != http.StatusSeeOther || h.Status("mail:a3") != lock.PendingApproval {
		t.Fatalf("undo = %d %s, status %s", w.Status, w.Body, h.Status("mail:a3"))
	}
	page = h.Page(http.StatusOK, "/"+strings.TrimLeft(w.Header.Get("Location"), "./"))
	says(t, page, "Undid the decision about mail:a3.", "1 of 1")
	lacks(t, page, `value="undo"`)
}

// A forged link to a decision shows only what the record confirms.
func TestMadeUpMessage(t *testing.T) {
	h := newFixture(t)
	for _, query := range []string{"?did=approve&tool=mail:send&rev=1", "?did=block&tool=fs:read_file&rev=1", "?did=approve&tool=fs:read_file&rev=1", "?did=x&tool=mail:send&rev=1", "?did=disable&tool=nope&rev=1"} {
		for _, path := range []string{"/admin/tools", "/admin/tools/mail/send"} {
			lacks(t, h.Page(http.StatusOK, path+query), `class="message"`)
		}
	}
	page := h.Page(http.StatusOK, "/admin/tools/mail/send")
	for _, action := range []string{"approve", "disable"} {
		h.press("/admin/tools/mail/send", page, action)
		page = h.Page(http.StatusOK, "/admin/tools/mail/send")
	}
	rev := h.Field(page, "rev")
	says(t, h.Page(http.StatusOK, "/admin/tools?did=disable&tool=mail:send&rev="+rev), `class="message"`, "Undo")
	lacks(t, h.Page(http.StatusOK, "/admin/tools?did=approve&tool=mail:send&rev="+rev), `class="message"`) // true, but not the last decision
	for path, message := range map[string]string{"/admin/tools?did=disable&tool=mail:send&rev=" + rev: "Disabled", "/admin/servers?sync=done&new=0&changed=0": "was asked", "/admin/me?ended=7": "7 sessions"} {
		lacks(t, h.Send(path, "", browser, "Sec-Fetch-Site: cross-site").Body, message)
	}
}

func TestReviewChanged(t *testing.T) {
	h := newFixture(t)
	const path = "/admin/tools/fs/read_file"
	change := func(definition string) { h.ByName["fs"].Tools[0] = definition; h.Sync() }
	change(`{"name":"read_file","description":"Reads a file. Thrice.","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","properties":{"path":{"type":"string"},"as":{"type":"string"}}}}`)
	page := h.Page(http.StatusOK, path)
	says(t, page, "Changes", "parameter", "<code>as</code>", "new power", "changed</span>", "Approved<dd>automatically",
		`<del>Twice</del><ins>Thrice</ins>`)
	says(t, h.Page(http.StatusOK, path+"?diff=side"), "Approved before", "<del>", "<ins>")
	lacks(t, h.Page(http.StatusOK, path+"?view=input&only=1"), "Thrice")
	says(t, h.Page(http.StatusOK, path+"?view=input&only=1"), "<ins>", "&#34;as&#34;")
	says(t, h.Page(http.StatusOK, path+"?view=raw"), "readOnlyHint")
	says(t, h.Page(http.StatusOK, path+"?view=output"), "nothing of this kind")

	change(`{"name":"read_file","description":"Reads a file. Fourth.","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","properties":{"path":{"type":"string"},"as":{"type":"string"}}}}`)
	status, body := h.press(path, page, "approve")
	if status != http.StatusConflict || h.Status("fs:read_file") != lock.PendingApproval {
		t.Errorf("approving an old definition = %d, status %q", status, h.Status("fs:read_file"))
	}
	says(t, body, "changed since it was shown", "Changed again while you read", "Thrice", "Fourth", `value="from the page"`)
}

func TestReviewDenied(t *testing.T) {
	h := newFixture(t)
	const path = "/admin/tools/mail/read_drafts"
	page := h.Page(http.StatusOK, path)
	if got := buttons(page); slices.Contains(got, "approve") || slices.Contains(got, "enable") {
		t.Errorf("buttons of a denied tool: %q", got)
	}
	says(t, page, "An operator's rule denies this tool", "no-drafts", "Drafts are private.", "#mail-owners", "Nobody can unlock it here")
	if status, _ := h.press(path, page, "approve"); status != http.StatusConflict {
		t.Errorf("approve = %d, want %d", status, http.StatusConflict)
	}
}

// Enter in the note sends the form's first button, which decides nothing and keeps the typed text.
func TestKeepNote(t *testing.T) {
	h := newFixture(t)
	page := h.Page(http.StatusOK, "/admin/tools/mail/send")
	_, form, _ := strings.Cut(page, `id="decide"`)
	if first := regexp.MustCompile(`<button[^>]*>`).FindString(form); strings.Contains(first, "formaction") {
		t.Errorf("the form's first button is %s", first)
	}
	w := h.Submit("/admin/tools/mail/send", url.Values{"note": {`half a "thought`}, "tell": {"1"}, "rev": {"1"}, "hash": {string(h.Hash("mail/send"))}})
	if w.Status != http.StatusOK || h.Status("mail:send") != lock.PendingApproval {
		t.Errorf("%d %s", w.Status, w.Body)
	}
	says(t, w.Body, `value="half a &#34;thought"`, " checked> tell agents", "Nothing was decided.")
}

func TestDecideRefusals(t *testing.T) {
	h := newFixture(t)
	const path = "/admin/tools/fs/read_file/"
	for _, test := range []struct {
		name, verb, form string
		status           int
	}{
		{"no revision", "disable", "hash=x", http.StatusBadRequest},
		{"revision 0", "disable", "rev=0", http.StatusBadRequest},
		{"a hash that nobody saw", "block", "rev=1&hash=" + strings.Repeat("0", 64), http.StatusConflict},
		{"no form", "disable", "%zz", http.StatusBadRequest},
		{"a form too long", "disable", "rev=1&note=" + strings.Repeat("x", 1<<17), http.StatusRequestEntityTooLarge},
		{"an unknown queue", "disable?status=open", "rev=1", http.StatusUnprocessableEntity},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := h.Send(path+test.verb, test.form, browser, form)
			if w.Status != test.status || !strings.Contains(w.Header.Get("Content-Type"), "text/html") || !strings.Contains(w.Body, `role="alert"`) {
				t.Errorf("%d, want %d: %s", w.Status, test.status, w.Body)
			}
		})
	}
	if s := h.Status("fs:read_file"); s != lock.None {
		t.Errorf("status = %q", s)
	}
}

// If a definition was approved, then replaced, and comes back, it waits. The page tells the person
// about the earlier approval.
func TestToolApprovedEarlier(t *testing.T) {
	h := newFixture(t)
	const path = "/admin/tools/mail/send"
	first := h.ByName["mail"].Tools[0]
	admintest.Into[decide.Tool](h.Fixture, path+"/approve", approveBody(h.Hash("mail/send")))
	h.ByName["mail"].Tools[0] = `{"name":"send","title":"Newer"}`
	h.Sync()
	if x := admintest.Into[decide.Tool](h.Fixture, path, ""); x.Record.Earlier != nil {
		t.Errorf("a new definition was approved earlier: %+v", x.Record.Earlier)
	}
	admintest.Into[decide.Tool](h.Fixture, path+"/approve", approveBody(h.Hash("mail/send")))
	h.ByName["mail"].Tools[0] = first
	h.Sync()
	x := admintest.Into[decide.Tool](h.Fixture, path, "")
	if x.Status != "pending_approval" || x.Record.Earlier == nil || x.Record.Earlier.By != "ann" || x.Record.Earlier.At.IsZero() {
		t.Errorf("%s, approved earlier %+v", x.Status, x.Record.Earlier)
	}
	says(t, h.Page(http.StatusOK, path), "<b>approved earlier</b> by ann")
}

func TestToolPageMissing(t *testing.T) {
	h := newFixture(t)
	page := h.Page(http.StatusNotFound, "/admin/tools/mail/<b>nope")
	if !strings.Contains(page, "No tool has this name") || strings.Contains(page, "<b>nope") {
		t.Errorf("page = %s", page)
	}
	w := h.Submit("/admin/tools/mail/nope/disable", url.Values{"rev": {"1"}})
	if w.Status != http.StatusNotFound {
		t.Errorf("form = %d", w.Status)
	}
}

// Two people, or one person with two tabs, decide about the same tool. The second form is refused,
// and the answer shows the first decision.
func TestFormOfAnEarlierRevision(t *testing.T) {
	h := newFixture(t)
	const path = "/admin/tools/mail/send"
	shown := h.Page(http.StatusOK, path)
	h.Clock.Wait(time.Minute)
	if status, body := h.press(path, h.Page(http.StatusOK, path), "disable"); status != http.StatusSeeOther {
		t.Fatalf("disable = %d %s", status, body)
	}
	status, body := h.press(path, shown, "approve")
	for _, want := range []string{"Nothing was decided: ", "it is disabled", "by ann, at 2026-11-20 12:01:00 UTC", `value="from the page"`, `value="approve"`, `value="enable"`} {
		if status != http.StatusConflict || !strings.Contains(body, want) {
			t.Errorf("%d, the page lacks %q: %s", status, want, body)
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
		t.Errorf("the form of the refusal cannot approve: %d %s", status, body)
	}
}
