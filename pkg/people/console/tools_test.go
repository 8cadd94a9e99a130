package console_test

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/test/admintest"
)

// maxPage is how many bytes no page is longer than.
const maxPage = 60 << 10

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
		"?q=nothing+has+this":              {"No tool is like this", "Show everything"},
		"?status=pending_approval&q=none":  {"Nothing waits here", "All that waits"},
		"?status=&q=&sort=":                {"4 tools"},
		"?tick=page":                       {"4 tools", " checked>"},
	} {
		says(t, h.Page(http.StatusOK, "/admin/tools"+query), want...)
	}
	for query, name := range map[string]string{"?status=open": "Status is", "?foo=1": "&#34;foo&#34;", "?server=nope": "Server is", "?tier=x": "Tier is", "?q=a&q=b": "Q stands there twice", "?after=x": "begin again"} {
		says(t, h.Page(http.StatusUnprocessableEntity, "/admin/tools"+query), name)
	}
}

func TestToolsPaging(t *testing.T) {
	h := &fixture{Desk: admintest.WithMany(t, 60, 40)}
	href := regexp.MustCompile(`<a href="\.\./(admin/tools/[^"?]+)[^"]*">`)
	next := regexp.MustCompile(`<a href="\.\./(admin/tools\?[^"]+)" rel="next">`)
	seen, path, pages := map[string]int{}, "/admin/tools?tier=destructive", 0
	for path != "" {
		page := h.Page(http.StatusOK, path)
		if n := len(page); n > maxPage {
			t.Fatalf("%s has %d bytes", path, n)
		}
		links := href.FindAllStringSubmatch(page, -1)
		if len(links) > 50 {
			t.Fatalf("%s shows %d tools", path, len(links))
		}
		for _, m := range links {
			seen[m[1]]++
		}
		pages++
		path = ""
		if m := next.FindStringSubmatch(page); m != nil {
			path = "/" + html.UnescapeString(m[1])
		}
	}
	if len(seen) != 60*40 || pages != 60*40/50 {
		t.Errorf("%d tools on %d pages", len(seen), pages)
	}
	for link, n := range seen {
		if n != 1 {
			t.Errorf("%s is shown %d times", link, n)
		}
	}
	admintest.Into[decide.Tool](h.Desk, "/admin/tools/server-041/tool_00007", "") // no record yet: it only shows
}

// What a server says is text in the table too, and cannot make the page long.
func TestToolsText(t *testing.T) {
	h := newFixture(t)
	hostile := `</td></table><script>alert(1)</script>\u202e` + strings.Repeat(`&<\"`, 30_000)
	var tools []string
	for i := range 60 {
		tools = append(tools, `{"name":"`+strings.Repeat("n", 60)+string(rune('a'+i/26))+string(rune('a'+i%26))+`","description":"`+hostile+`"}`)
	}
	h.ByName["mail"].Tools = tools
	h.Sync()
	for _, path := range []string{"/admin", "/admin/tools", "/admin/tools?status=pending_approval&tick=page"} {
		page := h.Page(http.StatusOK, path)
		lacks(t, page, "<script>alert", "\u202e")
		if len(page) > maxPage {
			t.Errorf("%s has %d bytes", path, len(page))
		}
	}
}
