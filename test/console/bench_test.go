package console_test

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/fleettest"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

// BenchmarkPages10000 is how long the handler takes for pages in front of 10,000 tools of which
// 43 wait. The aim is 30 ms.
func BenchmarkPages10000(b *testing.B) {
	d, u := large(b)
	for _, p := range []place{
		{"inbox", "/admin"},
		{"queue", "/admin/tools?status=pending_approval"},
		{"tools", "/admin/tools"},
		{"search", "/admin/tools?q=workspace"},
		{"review", page(u.Word)},
	} {
		b.Run(p.name, func(b *testing.B) {
			d.Client.T = b
			size := 0
			for b.Loop() {
				a := d.Send(p.path, "", admintest.Browser)
				if a.Status != 200 {
					b.Fatalf("%s: %d %s", p.path, a.Status, a.Body)
				}
				size = len(a.Body)
			}
			b.ReportMetric(float64(size), "B/page")
		})
	}
}

// large returns a desk in memory, in front of 10,000 tools after their update.
func large(b *testing.B) (*admintest.Desk, fleettest.Update) {
	b.Helper()
	d, u := admintest.New(b), fleettest.NewUpdate(fleettest.MadeUp(100, 10_000))
	d.ByName = map[string]*gatewaytest.Server{}
	for _, c := range []fleettest.Catalog{u.Before, u.Now} {
		for name, tools := range c {
			d.Serve(name)
			for _, raw := range tools {
				d.Server(name).Tools = append(d.Server(name).Tools, string(raw))
			}
		}
		d.Configure(nil)
		d.Sync()
	}
	return d, u
}
