package search

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// randomDoc makes a tool of few words, so that tools share many words.
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
	var added []string
	for range r.IntN(3) {
		added = append(added, some(2))
	}
	return Doc{
		Words: added,
		Name:  some(3), Server: some(1), Description: some(12),
		Schema: fmt.Appendf(nil, `{"properties":{%q:{"description":%q,"enum":[%q]}}}`, some(2), some(6), some(1)),
	}
}

// randomRuling makes a short query with a negation.
func randomRuling(r *rand.Rand) string {
	words := strings.Fields("without do not never delete deleting send sending write read remove files, the page or and but mail table. list")
	var out []string
	for range 2 + r.IntN(10) {
		out = append(out, words[r.IntN(len(words))])
	}
	return strings.Join(out, " ")
}

// surround returns the documents of a view with other documents before, between and after them, and
// the numbers of the view's documents in this catalog.
func surround(r *rand.Rand, inside []Doc) (catalog []Doc, numbers []int) {
	for _, d := range inside {
		for range r.IntN(4) {
			catalog = append(catalog, randomDoc(r))
		}
		numbers = append(numbers, len(catalog))
		catalog = append(catalog, d)
	}
	return catalog, numbers
}

// TestRankOutsideView adds, removes and changes tools outside a view of random catalogs. Every
// score of the view is in 0…1 and stays the same to the last bit.
func TestRankOutsideView(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	typist := newTypist()
	for round := range 60 {
		inside := make([]Doc, 1+r.IntN(30))
		numbers := make([]int, len(inside))
		for i := range inside {
			inside[i], numbers[i] = randomDoc(r), i
		}
		query := randomDoc(r).Description
		if round%2 == 0 {
			query = typist.spoil(query)
		}
		if round%3 == 0 {
			query = randomRuling(r)
		}
		half := r.IntN(len(inside))
		rank := func(catalog []Doc, numbers []int) (Result, int) {
			ix, o := indexOf(t, catalog), Options{Lexical: round%5 == 0}
			q, n := ix.Query(query), len(catalog)
			found := ix.Rank(q, viewOf(n, numbers...), 30, o)
			for i, h := range found.Hits {
				found.Hits[i].Doc = slices.Index(numbers, h.Doc)
			}
			return found, ix.Outranking(q, viewOf(n, numbers[:half]...), viewOf(n, numbers[half:]...), o).Len()
		}
		want, better := rank(inside, numbers)
		for _, h := range want.Hits {
			if lowest, highest := min(h.Score, h.Lexical, h.Semantic), max(h.Score, h.Lexical, h.Semantic); !(lowest >= 0 && highest <= 1) {
				t.Fatalf("query %q: hit %+v is not within 0…1", query, h)
			}
		}
		if !bytes.Equal(built(inside), built(inside)) {
			t.Fatal("Build returns other bytes for the same docs")
		}
		for range 3 {
			got, outranking := rank(surround(r, inside))
			if diff := cmp.Diff(want, got); diff != "" || outranking != better {
				t.Fatalf("query %q: among others %d tools outrank, alone %d; tools outside the view change its result (-alone +among others):\n%s",
					query, outranking, better, diff)
			}
		}
	}
}
