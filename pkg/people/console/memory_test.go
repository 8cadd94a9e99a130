package console_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/allocated"
)

// A page allocates at most 10 MB plus three times the size of its definitions, even for expensive
// definitions.
func TestPageMemory(t *testing.T) {
	for _, size := range []int{19 << 10, tool.MaxDefinition - 100} {
		for name, s := range allocated.Shapes(size) {
			if size < tool.MaxDefinition/2 && !strings.HasPrefix(name, "nested") {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d KB", name, size>>10), func(t *testing.T) {
				h := newFixture(t)
				serve := func(definition string) tool.Hash {
					h.Serve("shapes", definition)
					h.Sync()
					return h.Record("shapes:costly").CurrentHash
				}
				h.Put(config.Key, `{"mcpServers":{"shapes":{"url":"https://shapes.example.com/mcp"}}}`)
				before := serve(`{"name":"costly"}`)
				if tool.CheckDepth([]byte(s.Before)) == nil {
					before = serve(s.Before)
					h.Gateway.Decide("shapes:costly", "approve")
				}
				now := serve(s.Now)
				most := uint64(3*(len(s.Before)+len(s.Now)) + 10<<20)
				const item = "/admin/tools/shapes/costly"
				pages := []string{"/admin", "/admin/tools?status=pending_approval", "/admin/tools?q=costly", "/admin/servers/shapes", "/admin/try?query=costly&servers=*&tiers=read,write,destructive&include_disabled=1",
					item + "/history", fmt.Sprintf("%s?from=%s&to=%s", item, before, now), item + "/text?of=raw", item + "/text?of=description"}
				for _, view := range []string{"summary", "description", "input", "output", "raw"} {
					pages = append(pages, item+"?view="+view, item+"?diff=side&only=1&view="+view)
				}
				for _, path := range slices.Sorted(slices.Values(pages)) {
					var page string
					n := allocated.By(func() { page = h.Send(path, "", "Accept: text/html").Body })
					if n > most || uint64(len(page)) > most {
						t.Errorf("%s allocates %d KB and is %d KB long, want at most %d", path, n>>10, len(page)>>10, most>>10)
					}
				}
			})
		}
	}
}

// The page of one call needs no more memory for nested arguments.
func TestArgumentsMemory(t *testing.T) {
	h := newFixture(t)
	h.confirms()
	nested := strings.Repeat(`[`, 4_500) + strings.Repeat(`]`, 4_500)
	arguments := `{"a":` + nested + `,"b":` + nested + `}`
	path := "/admin/requests/" + h.Asks(bot, "fs:read_file", "", arguments)
	page := h.Page(http.StatusOK, path)
	if n, most := allocated.By(func() { h.Page(http.StatusOK, path) }), uint64(3*request.MaxArgs+10<<20); n > most || len(page) > 4*request.MaxArgs {
		t.Errorf("the page allocates %d bytes and is %d bytes long", n, len(page))
	}
}
