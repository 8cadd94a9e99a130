package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// maxPage is how long a page may be, in bytes as a browser without compression gets it.
const maxPage = 60 << 10

// No page is longer than 60 KB, however many tools there are.
func TestPageSizes(t *testing.T) {
	d, u := large(t)
	for _, p := range append(pagesOf(u), place{"found", "/admin/tools?q=workspace"}, place{"callable", "/admin/tools?status=callable&sort=oldest"}) {
		body := d.Page(http.StatusOK, p.path)
		if len(body) > maxPage {
			t.Errorf("%s: %d bytes, want at most %d", p.path, len(body), maxPage)
		}
		t.Logf("%-16s %6d bytes", p.name, len(body))
	}
	a := d.Submit("/admin/tools/bulk", url.Values{"all": {"1"}, "action": {"approve"}, "status": {"callable"}})
	if a.Status != http.StatusOK || len(a.Body) > maxPage || !strings.Contains(a.Body, "Left out") {
		t.Errorf("a sheet of all of them: status %d, %d bytes, want at most %d", a.Status, len(a.Body), maxPage)
	}
}
