package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/fleettest"
)

// maxPage is how long a page may be, in bytes as a browser without compression gets it.
const maxPage = 60 << 10

// No page is longer than 60 KB, however many tools there are.
func TestPageSizes(t *testing.T) {
	d := open(t, fleettest.MadeUp(100, 10_000))
	places := append(d.pages(), place{"found", "/admin/tools?q=workspace"}, place{"callable", "/admin/tools?status=callable&sort=oldest"})
	for _, p := range places {
		a := d.get(p.path)
		if a.Status != http.StatusOK || len(a.Body) > maxPage {
			t.Errorf("%s: status %d, %d bytes, want at most %d", p.path, a.Status, len(a.Body), maxPage)
		}
		t.Logf("%-16s %6d bytes", p.name, len(a.Body))
	}
	t.Run("all of them on one sheet", func(t *testing.T) {
		a := d.post("/admin/tools/bulk", url.Values{"all": {"1"}, "action": {"approve"}, "status": {"callable"}})
		if a.Status != http.StatusOK || len(a.Body) > maxPage || !strings.Contains(a.Body, "Left out") {
			t.Errorf("status %d, %d bytes, want at most %d", a.Status, len(a.Body), maxPage)
		}
	})
}
