package search

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
)

// publicSets loads the sets that parameters are chosen by. They are not part of
// this repository.
func publicSets(t testing.TB) []*judgedSet {
	t.Helper()
	data := local.Data(t, ".")
	dev := filepath.Join(data, "retrieval-dev")
	sets := []*judgedSet{loadSet(t, "the 47", filepath.Join(dev, "tools.json"), filepath.Join(dev, "golden.json"))}
	for _, name := range []string{"bfcl", "metatool", "toolalpaca"} {
		dir := filepath.Join(data, "retrieval-public", name)
		sets = append(sets, loadSet(t, name, filepath.Join(dir, "tools.json"), filepath.Join(dir, "queries.json")))
	}
	return sets
}

// unbounded is m without a least cosine: every document with a vector matches.
func unbounded(m mixing) mixing {
	m.threshold = -1
	return m
}

// TestPublicSets pins what the ranking reaches on the public sets, without
// a least cosine. The table, the analysis and the sums all have to be right for it.
//
// The figures come from another implementation: with the newest Snowball English, but for
// the 47 with Porter's stemmer of 1980. The older Snowball in use here agrees with the one
// on the large sets and with the other on the 47, where one label is .01 of R@5.
func TestPublicSets(t *testing.T) {
	const within = .005
	want := map[string]map[string]measures{
		"lexical": {
			"the 47":     {r1: .486, r5: .780, r10: .840, mrr: .629},
			"bfcl":       {r1: .648, r5: .882, r10: .923, mrr: .746},
			"metatool":   {r1: .511, r5: .682, r10: .739, mrr: .586},
			"toolalpaca": {r1: .682, r5: .890, r10: .935, mrr: .819},
		},
		"vectors alone": {
			"the 47":     {r1: .642, r5: .890, r10: .926, mrr: .811},
			"bfcl":       {r1: .577, r5: .847, r10: .890, mrr: .689},
			"metatool":   {r1: .479, r5: .695, r10: .767, mrr: .571},
			"toolalpaca": {r1: .598, r5: .907, r10: .955, mrr: .768},
		},
		"fused": {
			"the 47":     {r1: .528, r5: .851, r10: .947, mrr: .721},
			"bfcl":       {r1: .668, r5: .898, r10: .928, mrr: .765},
			"metatool":   {r1: .523, r5: .725, r10: .786, mrr: .610},
			"toolalpaca": {r1: .677, r5: .909, r10: .947, mrr: .815},
		},
	}
	mixings := map[string]mixing{"lexical": lexical(), "vectors alone": unbounded(mixing{share: 1}), "fused": unbounded(fused())}
	for _, s := range publicSets(t) {
		for name, m := range mixings {
			got, want := mean(s.measure(m, nil)), want[name][s.name]
			t.Logf("%s, %s: %.3f", s.name, name, got)
			for _, d := range []float64{got.r1 - want.r1, got.r5 - want.r5, got.r10 - want.r10, got.mrr - want.mrr} {
				if math.Abs(d) > within {
					t.Errorf("%s, %s: R@1 R@5 R@10 MRR are %.3f, want %.3f, each ±%v", s.name, name, got, want, within)
					break
				}
			}
		}
	}
}

// TestWorkedExample follows one query through every number of the ranking.
func TestWorkedExample(t *testing.T) {
	s := publicSets(t)[0]
	const mass = 17.1109
	query := s.ix.Query("Show me the full text content stored inside a file on disk")
	hits := s.ix.Rank(query, s.all, 4, Options{}).Hits
	want := []struct{ bm25f, cosine, score float64 }{
		{7.4244, .658, .434}, // read_text_file
		{7.1502, .657, .423}, // read_file
		{5.9895, .637, .372}, // write_file
		{5.1074, .525, .289}, // edit_file
	}
	if len(hits) != len(want) {
		t.Fatalf("%d hits, want %d", len(hits), len(want))
	}
	for i, w := range want {
		h := hits[i]
		if math.Abs(h.Lexical*mass-w.bm25f) > .0001 || math.Abs(math.Sqrt(h.Semantic)-w.cosine) > .005 || math.Abs(h.Score-w.score) > .005 {
			t.Errorf("hit %d: BM25F %.4f, cosine %.3f, score %.3f, want %.4f, %.3f, %.3f",
				i+1, h.Lexical*mass, math.Sqrt(h.Semantic), h.Score, w.bm25f, w.cosine, w.score)
		}
	}
}
