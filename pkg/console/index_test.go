package console_test

import (
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/decide"
	"github.com/portcullis-mcp/portcullis/test/admintest"
)

func TestIndexRefusals(t *testing.T) {
	h := newFixture(t)
	tools := base64.RawURLEncoding.EncodeToString([]byte("tools\x00fs:a"))
	if page := h.Page(http.StatusUnprocessableEntity, "/admin?after="+tools); !strings.Contains(page, "begin again") {
		t.Errorf("page = %s", page)
	}
	h.Page(http.StatusNotFound, "/admin/tools?status=open")
}

func TestIndexPaging(t *testing.T) {
	h := &fixture{admintest.WithMany(t, 60, 40)}
	const rows = 60 * (40 + 1)
	href := regexp.MustCompile(`<a href="(?:\.\./|\./)(admin/tools/[^"]+)">`)
	next := regexp.MustCompile(`<a href="[./]*/(admin/tools\?[^"]+)" rel="next">`)
	seen, path, pages := map[string]int{}, "/admin", 0
	for path != "" {
		page := h.Page(http.StatusOK, path)
		if n := len(page); n > 20<<10 {
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
			path = "/" + strings.ReplaceAll(m[1], "&amp;", "&")
		}
	}
	if len(seen) != 60*40 || pages != (rows+49)/50 {
		t.Errorf("%d tools on %d pages, want %d on %d", len(seen), pages, 60*40, (rows+49)/50)
	}
	for link, n := range seen {
		if n != 1 {
			t.Errorf("%s is shown %d times", link, n)
		}
	}
	admintest.Into[decide.Tool](h.Desk, "/admin/tools/server-041/tool_00007", "") // no record yet: it only shows
	page := h.Page(http.StatusOK, "/admin/tools?status=callable&server=server-041")
	if n := len(href.FindAllString(page, -1)); n != 40 || strings.Contains(page, "server-040") || !strings.Contains(page, `callable 40</a>`) {
		t.Errorf("%d tools of one server: %s", n, page)
	}
}
