package decide_test

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/decide"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// BenchmarkList10000 is one page of the list of 10,000 tools. Its bound is 15 ms, whatever is asked.
func BenchmarkList10000(b *testing.B) {
	f := fixtureOf(admintest.WithMany(b, 100, 100))
	for name, filter := range map[string]decide.Filter{
		"all":    {},
		"risk":   {Sort: decide.ByRisk},
		"server": {Server: "server-050"},
		"words":  {Q: "what tool 77"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				page, err := f.desk.List(f.ctx, filter, decide.Paging{Limit: 50})
				require.OK(b, err)
				if page.Total == 0 {
					b.Fatal("no tool is listed")
				}
			}
		})
	}
}
