package search

import (
	"cmp"
	"math"
	"slices"
)

// round rounds a number to 9 decimals, so that the last bits of a sum do not decide the order of
// two documents whose words have the same weight.
func round(x float64) float64 { return math.Round(x*1e9) / 1e9 }

// compareHits orders better hits first, and equal hits by document number.
func compareHits(a, b Hit) int {
	switch {
	case a.Score > b.Score:
		return -1
	case a.Score < b.Score:
		return 1
	}
	return cmp.Compare(a.Doc, b.Doc)
}

// usualHits is the initial capacity for hits. It suffices for a search with 20 results.
const usualHits = 2*20 + 1

// A topK keeps the best of all added hits, and counts all added hits.
type topK struct {
	limit int
	total int
	hits  []Hit // at most 2·limit+1; if full, hits[:limit] are sorted
	full  bool  // a further hit must be better than hits[limit-1]
}

func (t *topK) add(h Hit) {
	t.total++
	if t.limit == 0 || t.full && compareHits(h, t.hits[t.limit-1]) > 0 {
		return
	}
	if t.hits == nil {
		t.hits = make([]Hit, 0, min(2*t.limit+1, usualHits))
	}
	t.hits = append(t.hits, h)
	if len(t.hits) > 2*t.limit {
		t.cut()
	}
}

func (t *topK) cut() {
	slices.SortFunc(t.hits, compareHits)
	if len(t.hits) >= t.limit {
		t.hits, t.full = t.hits[:t.limit], true
	}
}

// merge adds the hits of another topK.
func (t *topK) merge(o *topK) {
	t.total += o.total
	t.hits, t.full = append(t.hits, o.hits...), false
}

func (t *topK) result() Result {
	t.cut()
	for i := range t.hits {
		t.hits[i].Lexical, t.hits[i].Semantic = round(t.hits[i].Lexical), round(t.hits[i].Semantic)
	}
	return Result{Hits: t.hits, Total: t.total}
}
