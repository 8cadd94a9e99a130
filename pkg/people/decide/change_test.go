package decide_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/test/allocated"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// withLargeChanges returns a fixture with eight tools of 120 KB whose definitions have changed
// completely.
func withLargeChanges(t testing.TB) *fixture {
	t.Helper()
	f := newFixture(t)
	list := func(word string) (out []string) {
		for i := range 8 {
			var schema strings.Builder
			for n := range 1_500 {
				fmt.Fprintf(&schema, `"parameter_%s_%d_%d":{"type":"string","description":"%[1]s %[3]d"},`, word, i, n)
			}
			out = append(out, fmt.Sprintf(`{"name":"large_%d","inputSchema":{"type":"object","properties":{%s"last":{}}}}`, i, schema.String()))
		}
		return out
	}
	f.Serve("large", list("before")...)
	f.Put(config.Key, `{"mcpServers": {"large": {"url": "https://large.example.com/mcp"}}}`)
	f.Sync()
	f.Serve("large", list("now")...)
	f.Sync()
	return f
}

// A page of changed tools computes the changes only at the first view, because the
// computation takes much memory.
func TestListComputesChangesOnce(t *testing.T) {
	f := withLargeChanges(t)
	view := func() {
		page, err := f.service.List(f.ctx, decide.Filter{Server: "large", Status: "pending_approval"}, decide.Paging{Limit: 50})
		require.OK(t, err)
		if len(page.Tools) != 8 || !strings.HasPrefix(page.Tools[0].Change, "+parameter") {
			t.Fatalf("%d tools, %+v", len(page.Tools), page.Tools)
		}
	}
	view()
	if n := allocated.By(view); n > 3<<20 {
		t.Errorf("another view of 8 changes allocates %d bytes", n)
	}
}
