package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/test/admintest"
)

// says fails the test for each text that the page lacks.
func says(t *testing.T, page string, texts ...string) {
	t.Helper()
	for _, want := range texts {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}

// lacks fails the test for each text that the page has.
func lacks(t *testing.T, page string, texts ...string) {
	t.Helper()
	for _, bad := range texts {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q:\n%s", bad, page)
		}
	}
}

func TestInbox(t *testing.T) {
	h := newFixture(t)
	t.Run("new", func(t *testing.T) {
		page := h.Page(http.StatusOK, "/admin")
		says(t, page, "<title>(1) Inbox · Portcullis</title>", "1 new", `href="./admin/tools?server=mail&amp;state=new&amp;status=pending_approval"`,
			`href="./admin/tools/mail/send?status=pending_approval"`, "Review it", "Nobody has decided")
		lacks(t, page, "Nothing waits")
	})
	t.Run("nothing waits", func(t *testing.T) {
		admintest.Into[any](h.Fixture, "/admin/tools/mail/send/approve", approveBody(h.Hash("mail/send")))
		page := h.Page(http.StatusOK, "/admin")
		says(t, page, "<title>Inbox · Portcullis</title>", "Nothing waits", "ann · approve", "“seen”")
		lacks(t, page, "Review it")
	})
	t.Run("changed", func(t *testing.T) {
		h.ByName["fs"].Tools[0] = `{"name":"read_file","description":"Second."}`
		h.Sync()
		says(t, h.Page(http.StatusOK, "/admin"), "1 changed", `href="./admin/tools/fs/read_file?state=changed&amp;status=pending_approval"`)
	})
	t.Run("at its old addresses", func(t *testing.T) {
		if w := h.Send("/admin/", ""); w.Status != http.StatusPermanentRedirect || w.Header.Get("Location") != "../admin" {
			t.Errorf("/admin/ = %d to %q", w.Status, w.Header.Get("Location"))
		}
		if w := h.Send("/admin?status=callable", "", browser); w.Status != http.StatusSeeOther || w.Header.Get("Location") != "./admin/tools?status=callable" {
			t.Errorf("%d to %q", w.Status, w.Header.Get("Location"))
		}
	})
}

// If nothing has changed, a poll gets an empty answer, even if ages on the page would be different.
func TestInboxPoll(t *testing.T) {
	h := newFixture(t)
	first := h.Send("/admin", "", browser)
	version := first.Header.Get("ETag")
	if len(version) < 10 || !strings.Contains(first.Body, `"If-None-Match":`) {
		t.Fatalf("version %q of %s", version, first.Body)
	}
	poll := func() int { return h.Send("/admin", "", browser, "If-None-Match: "+version).Status }
	h.Clock.Wait(60e9)
	h.Sync()
	if got := poll(); got != http.StatusNoContent {
		t.Errorf("nothing changed, but a poll gets %d", got)
	}
	w := h.Submit("/admin/tools/fs/read_file/disable", url.Values{"rev": {"1"}})
	if got := poll(); w.Status != http.StatusSeeOther || got != http.StatusOK {
		t.Errorf("after a decision (%d) a poll gets %d", w.Status, got)
	}
}

// If a file is refused, every page says so above its content, with the position of the fault.
func TestBanner(t *testing.T) {
	h := newFixture(t)
	lacks(t, h.Page(http.StatusOK, "/admin"), "banner")
	h.Put(config.Key, "{\n  \"mcpServers\": {,\n}")
	h.States.Refresh(t.Context())
	for _, path := range []string{"/admin", "/admin/tools", "/admin/tools/fs/read_file"} {
		says(t, h.Page(http.StatusOK, path), `class="banner"`, "mcp_config.json is refused", "2:18",
			"the previous version stays in use")
	}
}
