package search

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// randomDoc makes a tool out of few words, so that tools share many of them.
func randomDoc(r *rand.Rand) Doc {
	vocabulary := strings.Fields("read write file files page delete remove send mail email table tables cable query rows weather forecast " +
		"screenshot browser invoice refund 検索 ec2 status deploy deployed restart translate list")
	some := func(n int) string {
		var w []string
		for range 1 + r.IntN(n) {
			w = append(w, vocabulary[r.IntN(len(vocabulary))])
		}
		return strings.Join(w, " ")
	}
	return Doc{
		Name: some(3), Server: some(1), Description: some(12),
		Schema: fmt.Appendf(nil, `{"properties":{%q:{"description":%q,"enum":[%q]}}}`, some(2), some(6), some(1)),
	}
}

// TestRankOutsideView adds, removes and changes tools outside a
// view of random catalogs. Every score of the view stays the same to the last bit.
func TestRankOutsideView(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	typist := newTypist()
	for round := range 200 {
		inside := make([]Doc, 1+r.IntN(30))
		for i := range inside {
			inside[i] = randomDoc(r)
		}
		query := randomDoc(r).Description
		if round%2 == 0 {
			query = typist.spoil(query)
		}
		o := Options{Lexical: round%5 == 0}
		alone := indexOf(t, inside)
		want := alone.Rank(alone.Query(query), fullSet(len(inside)), 10, o)
		half := r.IntN(len(inside))
		outranking := func(ix *Index, n int, number func(int) int) int {
			a, b := tool.NewSet(n), tool.NewSet(n)
			for i := range inside {
				if i < half {
					a.Add(number(i))
				} else {
					b.Add(number(i))
				}
			}
			return ix.Outranking(ix.Query(query), a, b, o)
		}
		better := outranking(alone, len(inside), func(i int) int { return i })
		for range 3 {
			// The tools of the view keep their order; others come before, between and after.
			var catalog []Doc
			var numbers []int
			for _, d := range inside {
				for range r.IntN(4) {
					catalog = append(catalog, randomDoc(r))
				}
				numbers = append(numbers, len(catalog))
				catalog = append(catalog, d)
			}
			ix := indexOf(t, catalog)
			got := ix.Rank(ix.Query(query), viewOf(len(catalog), numbers...), 10, o)
			moved := Result{Total: want.Total}
			for _, h := range want.Hits {
				h.Doc = numbers[h.Doc]
				moved.Hits = append(moved.Hits, h)
			}
			if diff := cmp.Diff(moved, got); diff != "" {
				t.Fatalf("query %q: tools outside the view change its result (-alone +among others):\n%s", query, diff)
			}
			if got := outranking(ix, len(catalog), func(i int) int { return numbers[i] }); got != better {
				t.Fatalf("query %q: among others %d tools outrank, alone %d", query, got, better)
			}
		}
	}
}

func TestBuildTwice(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	catalog := make([]Doc, 50)
	for i := range catalog {
		catalog[i] = randomDoc(r)
	}
	first := Build(catalog)
	for range 5 {
		if string(Build(catalog)) != string(first) {
			t.Fatal("Build gives other bytes for the same docs")
		}
	}
}

func TestScoreRange(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 200 {
		catalog := make([]Doc, 1+r.IntN(20))
		for i := range catalog {
			catalog[i] = randomDoc(r)
		}
		ix := indexOf(t, catalog)
		query := randomDoc(r).Description
		for _, h := range ix.Rank(ix.Query(query), fullSet(len(catalog)), 20, Options{}).Hits {
			for _, x := range []float64{h.Score, h.Lexical, h.Semantic} {
				if !(x >= 0 && x <= 1) {
					t.Fatalf("query %q: hit %+v is not within 0…1", query, h)
				}
			}
		}
	}
}
