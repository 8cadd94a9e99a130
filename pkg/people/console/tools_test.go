package console_test

import (
	"net/http"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/test/admintest"
)

func TestTools(t *testing.T) {
	h := newFixture(t)
	page := h.Page(http.StatusOK, "/admin/tools")
	says(t, page, "4 tools", `href="../admin/tools/fs/read_file?sort=id">fs:<b>read_file</b></a>`, "Reads a file.",
		`<span class="chip callable">callable</span>`, `<span class="chip pending_approval">pending approval</span>`,
		`name="item" value="fs:read_file `+string(h.Hash("fs/read_file"))+` 1"`, `aria-label="fs:read_file"`)
	for query, want := range map[string][]string{
		"?status=pending_approval":         {"1 tool<", `href="../admin/tools/mail/send?status=pending_approval"`},
		"?q=twice":                         {"1 tool<", `value="twice"`, "fs/read_file?q=twice"},
		"?server=fs&tier=read&sort=newest": {"1 tool<", `<option value="fs" selected>`},
		"?q=nothing+has+this":              {"No tool matches the filter", "Show everything"},
		"?status=pending_approval&q=none":  {"Nothing waits here", "All that wait<"},
		"?status=&q=&sort=":                {"4 tools"},
		"?tick=page":                       {"4 tools", " checked>"},
	} {
		says(t, h.Page(http.StatusOK, "/admin/tools"+query), want...)
	}
	for query, name := range map[string]string{"?status=open": "Status cannot be", "?foo=1": "&#34;foo&#34;", "?server=nope": "Server cannot be", "?tier=x": "Tier cannot be", "?q=a&q=b": "Q is given twice", "?after=x": "begin again"} {
		says(t, h.Page(http.StatusUnprocessableEntity, "/admin/tools"+query), name)
	}
}

func TestToolsPaging(t *testing.T) {
	h := &fixture{Fixture: admintest.WithMany(t, 12, 40)}
	const row = `<a href="\.\./(admin/tools/[^"?]+)[^"]*">`
	seen, pages := h.walk("/admin/tools?tier=destructive", row)
	if once(t, seen, 12*40); pages != 10 {
		t.Errorf("%d pages", pages)
	}
	admintest.Into[decide.Tool](h.Fixture, "/admin/tools/server-011/tool_00007", "") // no record yet: opening the page must not write one
}
