package console_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage/usagetest"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/fleettest"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

// BenchmarkPages10000 measures the time of the handler for pages of a catalog with 10,000 tools, 43
// of them pending. The aim is 30 ms.
func BenchmarkPages10000(b *testing.B) {
	d, u := large(b, fleettest.MadeUp(100, 10_000))
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
				if a.Status != http.StatusOK {
					b.Fatalf("%s: %d %s", p.path, a.Status, a.Body)
				}
				size = len(a.Body)
			}
			b.ReportMetric(float64(size), "B/page")
		})
	}
}

// large returns an in-memory gateway with its console and a catalog after its update.
func large(t testing.TB, of fleettest.Catalog) (*admintest.Fixture, fleettest.Update) {
	t.Helper()
	d, u := admintest.New(t), fleettest.NewUpdate(of)
	d.Decide.Usage = usage.NewCounter(&usagetest.Mem{}, nil, &usage.Options{Now: d.Clock.Now})
	d.Open()
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

// BenchmarkHostile measures the time of the handler for pages that show the changes of hostile
// definitions. The aim is 100 ms.
func BenchmarkHostile(b *testing.B) {
	d := admintest.New(b)
	before, now := fleettest.Hostile()
	d.ByName = map[string]*gatewaytest.Server{}
	for _, tools := range [][]json.RawMessage{before, now} {
		d.Serve("hostile")
		for _, raw := range tools {
			d.Server("hostile").Tools = append(d.Server("hostile").Tools, string(raw))
		}
		d.Configure(nil)
		d.Sync()
	}
	for _, name := range []string{"long_text", "many_lines", "many_parameters", "deep", "unbroken"} {
		for _, view := range []string{"", "?view=raw", "?view=description&diff=side"} {
			b.Run(name+view, func(b *testing.B) {
				d.Client.T = b
				for b.Loop() {
					a := d.Send("/admin/tools/hostile/"+name+view, "", admintest.Browser)
					if a.Status != http.StatusOK || len(a.Body) > maxHostile {
						b.Fatalf("%s: %d, %d bytes", name, a.Status, len(a.Body))
					}
				}
			})
		}
	}
}
