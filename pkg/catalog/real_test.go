package catalog_test

import (
	"fmt"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/test/local"
)

// realInput is a catalog of the real tools, n times over.
func realInput(b testing.TB, times int) catalog.Input {
	b.Helper()
	var in catalog.Input
	for server, tools := range local.Tools(b) {
		for n := range times {
			name := server
			if n > 0 {
				name = fmt.Sprintf("%s-%d", server, n)
			}
			s := catalog.ServerInput{Name: name, Enabled: true}
			for _, raw := range tools {
				t := define(b, string(raw))
				t.Record = &approval.Record{Server: name, Tool: t.Definition.Name, State: approval.Approved, ApprovedHash: t.Definition.Hash, CurrentHash: t.Definition.Hash, Rev: 1}
				s.Tools = append(s.Tools, t)
			}
			in.Servers = append(in.Servers, s)
		}
	}
	return in
}

// BenchmarkBuild is what a snapshot of the real tools costs to build, and its size.
func BenchmarkBuild(b *testing.B) {
	for _, times := range []int{1, 19} {
		in := realInput(b, times)
		b.Run(fmt.Sprint(527*times), func(b *testing.B) {
			var s *catalog.Snapshot
			for b.Loop() {
				s = build(b, in)
			}
			b.ReportMetric(float64(len(s.Encode()))/float64(s.Len()), "B/tool")
		})
	}
}

// BenchmarkDecodeReal is what the same snapshot costs to open.
func BenchmarkDecodeReal(b *testing.B) {
	for _, times := range []int{1, 19} {
		blob := build(b, realInput(b, times)).Encode()
		b.Run(fmt.Sprint(527*times), func(b *testing.B) {
			for b.Loop() {
				if _, err := catalog.Decode(blob); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
