package console_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/fleettest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The largest sizes of pages in bytes, without compression: with usual and with hostile
// definitions.
const (
	maxPage    = 60 << 10
	maxHostile = 200 << 10
)

// maxVisit is the largest number of bytes that the first visit of the inbox transfers.
const maxVisit = 32 << 10

// No page is longer than 60 KB. All lists have pages, so more tools make none longer.
func TestPageSizes(t *testing.T) {
	d, u := large(t, fleettest.MadeUp(100, 1500))
	for _, p := range append(pagesOf(u), place{"found", "/admin/tools?q=workspace"}, place{"callable", "/admin/tools?status=callable&sort=oldest"}) {
		body := d.Page(http.StatusOK, p.path)
		if len(body) > maxPage {
			t.Errorf("%s: %d bytes, want at most %d", p.path, len(body), maxPage)
		}
		t.Logf("%-16s %6d bytes", p.name, len(body))
	}
	for status, has := range map[string]string{"callable": "Skipped", "pending_approval": "<details"} {
		form := url.Values{"all": {"1"}, "action": {"approve"}, "status": {status}}
		a := d.Submit("/admin/tools/bulk", form)
		if a.Status != http.StatusOK || len(a.Body) > maxPage || !strings.Contains(a.Body, has) {
			t.Errorf("bulk page of %s tools: status %d, %d bytes, want at most %d", status, a.Status, len(a.Body), maxPage)
		}
		t.Logf("bulk %-16s %6d bytes", status, len(a.Body))
	}
}

// The first visit of the inbox transfers at most 32 KB: the page, the style and the scripts.
func TestFirstVisit(t *testing.T) {
	d, _ := large(t, local.Tools(t))
	sum := 0
	get := func(path string, site string) string {
		a := d.Send(path, "", admintest.Browser, "Accept-Encoding: gzip, br, zstd",
			"Sec-Fetch-Site: "+site)
		var head strings.Builder
		require.OK(t, a.Header.Write(&head))
		sum += len(a.Body) + head.Len()
		t.Logf("%-40s %6d bytes", path, len(a.Body)+head.Len())
		z, err := gzip.NewReader(strings.NewReader(a.Body)) // fails if the answer is not compressed
		require.OK(t, err)
		body, err := io.ReadAll(z)
		require.OK(t, err)
		return string(body)
	}
	assets := regexp.MustCompile(`admin/assets/[^"]+`).FindAllString(get("/admin", "none"), -1)
	for _, asset := range assets {
		get("/"+asset, "same-origin")
	}
	if len(assets) != 3 || sum > maxVisit {
		t.Errorf("%d bytes with %d assets, want at most %d with 3", sum, len(assets), maxVisit)
	}
	t.Logf("%d bytes", sum)
}

// Every page shows real definitions completely.
func TestRealPages(t *testing.T) {
	d, u := large(t, local.Tools(t))
	for server, tools := range u.Now {
		for _, raw := range tools {
			var named struct{ Name string }
			require.OK(t, json.Unmarshal(raw, &named))
			for _, view := range []string{"?view=description", "?view=input", "?view=raw"} {
				body := d.Page(http.StatusOK, page(server+":"+named.Name)+view)
				if len(body) > maxPage || strings.Contains(body, "This is not all of it") {
					t.Errorf("%s:%s%s: %d bytes, or cut", server, named.Name, view, len(body))
				}
			}
		}
	}
	const queue = "/tools?status=pending_approval"
	for _, path := range []string{"", "/tools", queue, "/servers", "/audit"} {
		if body := d.Page(http.StatusOK, "/admin"+path); len(body) > maxPage {
			t.Errorf("%s: %d bytes, want at most %d", path, len(body), maxPage)
		}
	}
}
