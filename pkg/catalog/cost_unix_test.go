//go:build unix

package catalog_test

import (
	"encoding/json"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/local"
)

// BenchmarkUnchangedSyncOf10000 measures a sync without changes, with stores in memory.
func BenchmarkUnchangedSyncOf10000(b *testing.B) {
	w := crowded(b, 10_000)
	b.ReportAllocs()
	runtime.GC()
	var peak atomic.Uint64
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak.Store(max(peak.Load(), m.HeapInuse))
			}
		}
	}()
	before := local.OwnCPU(b)
	for b.Loop() {
		w.sync()
	}
	b.ReportMetric(float64((local.OwnCPU(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
	close(done)
	b.ReportMetric(float64(peak.Load())/1e6, "peak-MB")
}

// BenchmarkUnchangedSyncOverHTTPOf10000 measures a sync without changes, with servers over HTTP and
// records in a file. It includes the costs of the servers, which run in the same process.
func BenchmarkUnchangedSyncOverHTTPOf10000(b *testing.B) {
	tools := map[string][]json.RawMessage{}
	for _, s := range many(b, 10_000).Servers {
		for _, x := range s.Tools {
			tools[s.Name] = append(tools[s.Name], x.Definition.Raw)
		}
	}
	f := newFleet(b, tools)
	f.sync()
	f.sync()
	runtime.GC()
	b.ReportAllocs()
	before := local.OwnCPU(b)
	for b.Loop() {
		if _, err := f.syncer.Sync(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((local.OwnCPU(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
}
