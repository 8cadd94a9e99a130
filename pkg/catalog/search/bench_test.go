package search

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/catalog/search/embedding"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// realDocs returns the tools of real servers.
func realDocs(tb testing.TB) []Doc {
	tb.Helper()
	var catalog struct {
		Tools []struct {
			Server, Tool, Description string
			InputSchema               json.RawMessage
		}
	}
	readJSON(tb, local.Data(tb, "livemcp/tools.json"), &catalog)
	out := make([]Doc, len(catalog.Tools))
	for i, t := range catalog.Tools {
		out[i] = Doc{Name: t.Tool, Server: t.Server, Description: t.Description, Schema: t.InputSchema}
	}
	return out
}

// manyDocs returns n tools, made of real tools.
func manyDocs(tb testing.TB, n int) []Doc {
	tb.Helper()
	var out []Doc
	many := local.Many(tb, n)
	for _, server := range slices.Sorted(maps.Keys(many)) {
		for _, raw := range many[server] {
			d := require.JSON[struct {
				Name, Description string
				InputSchema       json.RawMessage
			}](tb, raw)
			out = append(out, Doc{Name: d.Name, Server: server, Description: d.Description, Schema: d.InputSchema})
		}
	}
	return out
}

const benchQuery = "restart the failed kubernetes deployment in staging, follow its log and report which pods crashed during cluster startup"

// BenchmarkScan compares a query's vector with all documents' vectors and keeps the best 50.
// Targets on one core: 100 µs for 527 tools, 2 ms for 10,000 and 20 ms for 100,000.
func BenchmarkScan(b *testing.B) {
	for _, n := range []int{527, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ix := scannable(b, n)
			q, view := ix.Query(benchQuery), fullSet(n)
			q.words, q.stems, q.weights = nil, nil, nil
			for b.Loop() {
				if r := ix.Rank(q, view, 50, Options{}); len(r.Hits) != 50 {
					b.Fatalf("%d hits", len(r.Hits))
				}
			}
		})
	}
}

// scannable returns an index of n documents without words. Their vectors are random, but so close
// to the vector of benchQuery that every document matches.
func scannable(b *testing.B, n int) *Index {
	r := rand.New(rand.NewPCG(13, 14))
	toward := vectorOf(benchQuery)
	squares := 0.0
	for _, x := range toward {
		squares += x * x
	}
	noise := math.Sqrt(squares / float64(len(toward)))
	far := make([]float64, n)
	for i := range far {
		far[i] = 1.5 * r.Float64()
	}
	return indexOfVectors(b, n, func(doc, i int) float64 { return toward[i] + far[doc]*noise*r.NormFloat64() })
}

// BenchmarkRank ranks a whole catalog by words and meaning.
func BenchmarkRank(b *testing.B) {
	for _, n := range []int{527, 10_000} {
		catalog := manyDocs(b, n)
		ix := indexOf(b, catalog)
		for name, text := range map[string]string{"query": benchQuery, "typo": "restrat the faild deployment"} {
			b.Run(fmt.Sprint(n, "/", name), func(b *testing.B) {
				view := fullSet(n)
				for b.Loop() {
					if r := ix.Rank(ix.Query(text), view, 10, Options{}); len(r.Hits) != 10 {
						b.Fatalf("%d hits", len(r.Hits))
					}
				}
			})
		}
	}
}

// BenchmarkLongQuery ranks with 10,000 characters of words that no tool has.
func BenchmarkLongQuery(b *testing.B) {
	n := 10_000
	ix := indexOf(b, manyDocs(b, n))
	view := fullSet(n)
	text := ""
	for i := 0; len(text) < 10_000; i++ {
		text += "q" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26)) + "xz "
	}
	for b.Loop() {
		if r := ix.Rank(ix.Query(text), view, 10, Options{}); len(r.Hits) > 10 {
			b.Fatalf("%d hits", len(r.Hits))
		}
	}
}

// BenchmarkBuild makes the index of 10,000 tools. Targets: at most 30 µs per tool, and at most 270
// bytes for the vector of a tool.
func BenchmarkBuild(b *testing.B) {
	catalog := manyDocs(b, 10_000)
	var size int
	b.ReportAllocs()
	for b.Loop() {
		size = len(built(catalog))
	}
	plain := len(builtWith(catalog, &embedding.Table{}, ""))
	n := float64(len(catalog))
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/n, "µs/tool")
	b.ReportMetric(float64(size-plain)/n, "vector-bytes/tool")
	b.ReportMetric(float64(plain)/n, "word-bytes/tool")
}

func BenchmarkOpen(b *testing.B) {
	stored := built(manyDocs(b, 10_000))
	for b.Loop() {
		if _, err := Open(stored); err != nil {
			b.Fatal(err)
		}
	}
}
