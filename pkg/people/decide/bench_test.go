package decide_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/allocated"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// newCrowd returns a fixture with 10,000 tools of 100 servers. All of them wait.
func newCrowd(b *testing.B) *fixture {
	b.Helper()
	f := fixtureOf(admintest.WithMany(b, 100, 100))
	o, err := f.Objects.Get(b.Context(), config.Key, "")
	require.OK(b, err)
	f.Put(config.Key, strings.ReplaceAll(string(o.Data), `"approval":"off"`, `"approval":"manual"`))
	f.Sync()
	return f
}

// BenchmarkList10000 reads one page of a list of 10,000 tools. Every filter must take at most 15
// ms.
func BenchmarkList10000(b *testing.B) {
	f := newCrowd(b)
	for name, filter := range map[string]decide.Filter{
		"all":     {},
		"queue":   {Status: "pending_approval"},
		"server":  {Server: "server-050"},
		"finding": {Finding: "none"},
		"words":   {Q: "what tool 77"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				page, err := f.service.List(f.ctx, filter, decide.Paging{Limit: 50})
				require.OK(b, err)
				if page.Total == 0 {
					b.Fatal("no tool is listed")
				}
			}
		})
	}
	b.Run("first", func(b *testing.B) { // of a new catalog
		b.ReportAllocs()
		for b.Loop() {
			service := decide.New(f.States, f.Approvals, f.Decide)
			_, err := service.List(f.ctx, decide.Filter{Sort: decide.ByRisk, Q: "tool"}, decide.Paging{Limit: 50})
			require.OK(b, err)
		}
	})
	b.Run("neighbours", func(b *testing.B) {
		b.ReportAllocs()
		id := gatewaytest.ID(b, "server-050:tool_00050")
		for b.Loop() {
			_, err := f.service.Neighbours(f.ctx, decide.Filter{Status: "pending_approval"}, id)
			require.OK(b, err)
		}
	})
}

// BenchmarkDecide10000 decides about one of 10,000 tools and reads the next page of the queue,
// which shows the current state of all tools.
func BenchmarkDecide10000(b *testing.B) {
	f := newCrowd(b)
	id := gatewaytest.ID(b, "server-050:tool_00050")
	b.ReportAllocs()
	for b.Loop() {
		for _, action := range []string{approval.ActionDisable, approval.ActionEnable} {
			_, err := f.service.Decide(f.ctx, id, decide.Decision{Action: action})
			require.OK(b, err)
			_, err = f.service.List(f.ctx, decide.Filter{Status: "pending_approval"}, decide.Paging{Limit: 50})
			require.OK(b, err)
		}
	}
}

// BenchmarkConfig10000 computes the config page's data, which is done once for each catalog.
func BenchmarkConfig10000(b *testing.B) {
	f := newCrowd(b)
	f.Forbid(strings.Repeat("forbid (principal, action, resource) when { resource.tier == \"destructive\" && principal.kind == \"none\" };\n", 10))
	f.States.Refresh(b.Context())
	for b.Loop() {
		if c := decide.New(f.States, f.Approvals, f.Decide).Config(f.ctx); len(c.Rules) != 10 {
			b.Fatalf("%d rules", len(c.Rules))
		}
	}
}

// withLargeChanges returns a fixture with 26 tools of 120 KB whose definitions have changed
// completely.
func withLargeChanges(t testing.TB) *fixture {
	t.Helper()
	f := newFixture(t)
	list := func(word string) (out []string) {
		for i := range 26 {
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

// A page of changed tools computes the changes only at the first view, because that takes 120 MB.
func TestListComputesChangesOnce(t *testing.T) {
	f := withLargeChanges(t)
	view := func() {
		page, err := f.service.List(f.ctx, decide.Filter{Server: "large", Status: "pending_approval"}, decide.Paging{Limit: 50})
		require.OK(t, err)
		if len(page.Tools) != 26 || !strings.HasPrefix(page.Tools[0].Change, "+parameter") {
			t.Fatalf("%d tools, %+v", len(page.Tools), page.Tools)
		}
	}
	view()
	if n := allocated.By(view); n > 8<<20 {
		t.Errorf("another view of 26 changes allocates %d bytes", n)
	}
}

// BenchmarkListLargeChanges reads a page of 26 changed tools of 120 KB.
func BenchmarkListLargeChanges(b *testing.B) {
	f := withLargeChanges(b)
	b.ReportAllocs()
	for b.Loop() {
		_, err := f.service.List(f.ctx, decide.Filter{Server: "large", Status: "pending_approval"}, decide.Paging{Limit: 50})
		require.OK(b, err)
	}
}
