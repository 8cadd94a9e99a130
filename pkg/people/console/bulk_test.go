package console_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
)

// items returns the values of a page's checkboxes or hidden fields.
func items(page string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`name="item" value="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		out = append(out, m[1])
	}
	return out
}

// withWaiting returns a fixture with tools that wait: mail:a1, mail:a2 and mail:a3 are read-only,
// and mail:wipe is destructive.
func withWaiting(t *testing.T) *fixture {
	t.Helper()
	h := newFixture(t)
	read := `","annotations":{"readOnlyHint":true},"description":"Reads."}`
	h.ByName["mail"].Tools = []string{`{"name":"a1` + read, `{"name":"a2` + read, `{"name":"a3` + read, `{"name":"wipe","annotations":{"destructiveHint":true}}`}
	h.Sync()
	return h
}

const queue = "/admin/tools?status=pending_approval"

func TestBulk(t *testing.T) {
	h := withWaiting(t)
	all := items(h.Page(http.StatusOK, queue))
	if len(all) != 4 {
		t.Fatalf("the queue has %q, want 4 items", all)
	}
	sheet := h.Submit("/admin/tools/bulk", url.Values{"action": {"approve"}, "status": {"pending_approval"}, "item": all}).Body
	says(t, sheet, "3 tools", "mail: 3 read", "Skipped", "mail:wipe",
		"is annotated as destructive, and you have not seen its current text",
		`href="../../admin/tools?status=pending_approval"`)
	if got := items(sheet); len(got) != 3 {
		t.Fatalf("the bulk page has the items %q, want 3", got)
	}
	if h.Status("mail:a1") != lock.PendingApproval {
		t.Fatal("the bulk page already decided about mail:a1")
	}
	h.ByName["mail"].Tools[1] = `{"name":"a2","description":"Another."}`
	h.Sync()
	form := url.Values{"action": {"approve"}, "item": append(items(sheet), all[0]), "note": {"all read"}}
	done := h.Submit("/admin/tools", form)
	says(t, done.Body, "Approved 2 tools.", "mail:a1", "mail:a3",
		"the definition changed since it was shown", "you have not seen its current text")
	for id, want := range map[string]lock.Status{"mail:a1": lock.None, "mail:a2": lock.PendingApproval, "mail:a3": lock.None, "mail:wipe": lock.PendingApproval} {
		if got := h.Status(id); got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
	if again := h.Submit("/admin/tools", form); again.Status != http.StatusConflict || !strings.Contains(again.Body, "Nothing was decided.") {
		t.Errorf("sent again: %d %s", again.Status, again.Body)
	}
}

// A bulk decision can include a destructive tool if the browser has opened the page of the tool's
// current definition.
func TestBulkOpened(t *testing.T) {
	h := withWaiting(t)
	cookies := h.Send("/admin/tools/mail/wipe", "", browser).Cookies()
	if len(cookies) != 1 || !cookies[0].HttpOnly {
		t.Fatalf("cookies %v", cookies)
	}
	cookie := "Cookie: " + cookies[0].Name + "=" + cookies[0].Value
	sheet := func() string {
		return h.Submit("/admin/tools/bulk", url.Values{"action": {"approve"}, "item": items(h.Page(http.StatusOK, queue))}, cookie).Body
	}
	if got := items(sheet()); len(got) != 4 {
		t.Errorf("the bulk page has the items %q, want 4", got)
	}
	if done := h.Submit("/admin/tools", url.Values{"action": {"approve"}, "item": items(sheet())}, cookie); done.Status != http.StatusOK || h.Status("mail:wipe") != lock.None {
		t.Errorf("%d %s", done.Status, done.Body)
	}
	if marked := h.Send("/admin/tools/mail/a1", "", browser, cookie).Cookies(); len(marked) != 1 || len(marked[0].Value) != 2*22+1 {
		t.Errorf("the cookie marks two definitions as %v, want 128 bits each", marked)
	}
	h.ByName["mail"].Tools[3] = `{"name":"wipe","description":"Another.","annotations":{"destructiveHint":true}}`
	h.Sync()
	says(t, sheet(), "you have not seen its current text")
}

func TestBulkRefusals(t *testing.T) {
	h := withWaiting(t)
	good := items(h.Page(http.StatusOK, queue))[0]
	for _, test := range []struct {
		name   string
		form   url.Values
		status int
		says   string
	}{
		{"no action", url.Values{"item": {good}}, http.StatusBadRequest, "no action"},
		{"another action", url.Values{"action": {"enable"}, "item": {good}}, http.StatusBadRequest, "no action"},
		{"no item", url.Values{"action": {"approve"}}, http.StatusUnprocessableEntity, "nothing was decided"},
		{"half an item", url.Values{"action": {"approve"}, "item": {"mail:a1 x"}}, http.StatusBadRequest, "cannot be read"},
		{"no revision", url.Values{"action": {"approve"}, "item": {"mail:a1 x y"}}, http.StatusBadRequest, "cannot be read"},
		{"revision 0", url.Values{"action": {"approve"}, "item": {good[:strings.LastIndex(good, " ")] + " 0"}}, http.StatusConflict, "has changed since you saw it"},
		{"an unknown filter", url.Values{"action": {"approve"}, "item": {good}, "status": {"x"}, "foo": {"1"}}, http.StatusUnprocessableEntity, "foo"},
		{"too long", url.Values{"action": {"approve"}, "note": {strings.Repeat("x", 1<<17)}}, http.StatusRequestEntityTooLarge, "longer than 64 KB; nothing was"},
		{"a tool that is not there", url.Values{"action": {"approve"}, "item": {"mail:none x 1"}}, http.StatusConflict, "o tool has this name"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if w := h.Submit("/admin/tools", test.form); w.Status != test.status || !strings.Contains(w.Body, test.says) {
				t.Errorf("%d %s", w.Status, w.Body)
			}
		})
	}
	if empty := h.Submit("/admin/tools/bulk", url.Values{"action": {"approve"}}); empty.Status != http.StatusOK || !strings.Contains(empty.Body, "No item was selected.") {
		t.Errorf("%d %s", empty.Status, empty.Body)
	}
	if got := h.Status("mail:a1"); got != lock.PendingApproval {
		t.Errorf("status = %q", got)
	}
}
