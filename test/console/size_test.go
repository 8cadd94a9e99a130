package console_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
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

// Nor with the longest names there can be, and texts of which each character takes six bytes.
func TestPageSizesOfLongNames(t *testing.T) {
	d, server := admintest.New(t), strings.Repeat("s", 128)
	d.ByName = map[string]*gatewaytest.Server{}
	var tools []string
	for i := range 200 {
		text := strings.Repeat(`"<'&>`, 600)
		tools = append(tools, says(fmt.Sprintf("%0128d", i), text, fmt.Sprintf(`%q: {"type": "string", "description": %q}`, text[:300], text)))
	}
	d.Serve(server, tools...)
	for s := range 99 {
		d.Serve(fmt.Sprintf("%0128d", s), `{"name":"x"}`)
	}
	d.Configure(map[string]string{server: `"approval": "manual"`})
	d.Sync()
	for _, path := range []string{
		"/admin", "/admin/tools", "/admin/tools?status=pending_approval", "/admin/servers", "/admin/servers/" + server, "/admin/config", "/admin/connect", "/admin/connect/claude?since=1&path=/mcp/x/" + server,
		fmt.Sprintf("/admin/tools/%s/%0128d", server, 7), fmt.Sprintf("/admin/tools/%s/%0128d?view=raw", server, 7), fmt.Sprintf("/admin/tools/%s/%0128d/history", server, 7),
	} {
		if body := d.Page(http.StatusOK, path); len(body) > maxPage {
			t.Errorf("%.60s: %d bytes, want at most %d", path, len(body), maxPage)
		} else {
			t.Logf("%.40s %d bytes", path, len(body))
		}
	}
	seen := map[string]bool{} // pages that are cut short lead on to what they leave out
	for path := "/admin/tools"; path != ""; {
		body := d.Page(http.StatusOK, path)
		for _, m := range regexp.MustCompile(`name="item" value="(\S+) `).FindAllStringSubmatch(body, -1) {
			seen[m[1]] = true
		}
		path = ""
		if m := regexp.MustCompile(`href="\.\./(admin/[^"]*)" rel="next"`).FindStringSubmatch(body); m != nil {
			path = "/" + html.UnescapeString(m[1])
		}
	}
	if len(seen) != 299 {
		t.Errorf("the pages list %d tools, want 299", len(seen))
	}
	for _, action := range []string{"approve", "block"} {
		a := d.Submit("/admin/tools/bulk", url.Values{"all": {"1"}, "action": {action}, "status": {"pending_approval"}})
		if a.Status != http.StatusOK || len(a.Body) > maxPage {
			t.Errorf("a sheet of all of them: status %d, %d bytes, want at most %d", a.Status, len(a.Body), maxPage)
		}
		t.Logf("sheet: %d bytes", len(a.Body))
	}
}

// says returns a definition.
func says(name, description, properties string) string {
	return fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object","properties":{%s}}}`, name, description, properties)
}
