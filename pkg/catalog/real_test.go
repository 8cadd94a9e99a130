package catalog_test

import (
	"fmt"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
)

// BenchmarkBuild measures the time and the size of a snapshot of the real tools.
func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{527, 10_000} {
		in := manyReal(b, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var s *catalog.Snapshot
			for b.Loop() {
				s = build(b, in)
			}
			b.ReportMetric(float64(len(s.Encode()))/float64(s.Len()), "B/tool")
		})
	}
}

// BenchmarkDecodeReal measures how long it takes to open this snapshot.
func BenchmarkDecodeReal(b *testing.B) {
	for _, n := range []int{527, 10_000} {
		blob := build(b, manyReal(b, n)).Encode()
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := catalog.Decode(blob); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
