package console_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

// A history entry links to a comparison, which shows the changes while both texts are stored.
func TestCompare(t *testing.T) {
	h := newFixture(t)
	serve := func(description string) {
		h.Serve("fs", gatewaytest.Tool("read_file", description, gatewaytest.ReadOnly), `{"name":"format_disk"}`)
		h.Sync()
	}
	serve("Reads one file of the disk.")
	link := regexp.MustCompile(`<a href="\.\./\.\./\.\./\.\.(/admin/tools/fs/read_file\?from=[0-9a-f]{64}&amp;to=[0-9a-f]{64})">`)
	newest := func() string {
		m := link.FindStringSubmatch(h.Page(http.StatusOK, "/admin/tools/fs/read_file/history"))
		if m == nil {
			t.Fatal("the history has no link to a change")
		}
		return strings.ReplaceAll(m[1], "&amp;", "&")
	}
	first := newest()
	says(t, h.Page(http.StatusOK, first), "approved last", ">now<", "one file of the disk", "<ins>", "<del>", "Decide about the tool")

	serve("Reads <b>any</b> file.")
	says(t, h.Page(http.StatusOK, newest()), "its text is not stored", "the last approved one. For other definitions")
	page := h.Page(http.StatusOK, first) // a definition that is no longer current
	says(t, page, "its text is not stored", "approved last")
	lacks(t, page, "one file of the disk", "<ins>")
	from, _, _ := strings.Cut(first, "&to=")
	page = h.Page(http.StatusOK, from+"&to="+string(h.Hash("fs/read_file")))
	says(t, page, "&lt;b&gt;any&lt;/b&gt;", "<ins>")
	lacks(t, page, "its text is not stored")

	approved := strings.TrimPrefix(from, "/admin/tools/fs/read_file?from=")
	serve(strings.Repeat("a long text ", 3000))
	longer := string(h.Hash("fs/read_file"))
	says(t, h.Page(http.StatusOK, "/admin/tools/fs/read_file?from="+approved+"&to="+longer), `/text?of=raw"`)
	says(t, h.Page(http.StatusOK, "/admin/tools/fs/read_file?from="+longer+"&to="+approved), `/text?of=raw&amp;from=approved"`) // the whole text of the named definition

	for _, query := range []string{"from=&to=", "from=abc&to=" + strings.Repeat("a", 64), "from=" + strings.Repeat("A", 64) + "&to="} {
		says(t, h.Page(http.StatusUnprocessableEntity, "/admin/tools/fs/read_file?"+query), "from is not the hash of a definition")
	}
	h.Page(http.StatusNotFound, strings.Replace(first, "read_file", "nope", 1))
}
