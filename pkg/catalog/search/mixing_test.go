package search

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"

	"github.com/portcullis-mcp/portcullis/pkg/catalog/search/embedding"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// TestMisspelledWeight computes the weight of a misspelled word by hand.
func TestMisspelledWeight(t *testing.T) {
	for _, c := range []struct {
		name, query string
		want        map[string]float64 // by term of the view
	}{
		{"one meant", "invoce", map[string]float64{"invoic": .7}},
		{"two meant", "xables", map[string]float64{"tabl": .35, "cabl": .35}},
		{"the misspelt word three times", "xables xables xables", map[string]float64{"tabl": .35, "cabl": .35}},
		{"a replacement occurs before", "tables xables", map[string]float64{"tabl": 1, "cabl": .35}},
		{"a replacement occurs after", "xables tables", map[string]float64{"tabl": 1, "cabl": .35}},
		{"a word twice", "tables tables", map[string]float64{"tabl": 1 + math.Log(2)}},
	} {
		ix := indexOf(t, docs("invoice", "tables", "cables"))
		got := map[string]float64{}
		for _, w := range termsIn(ix, c.query, fullSet(3)) {
			got[w.text] = w.weight
		}
		for term, want := range c.want {
			if math.Abs(got[term]-want) > 1e-12 {
				t.Errorf("%s: %q weighs %v, want %v", c.name, term, got[term], want)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: terms %v, want %v", c.name, got, c.want)
		}
	}
}

// termsIn returns the query's terms in a view.
func termsIn(ix *Index, query string, view tool.Set) []queryTerm {
	q := ix.Query(query)
	known := ix.knownTerms(q, view)
	return ix.resolve(known, view, ix.correct(q, known, view), false)
}

// TestMinCosine checks the minimum cosine at which a document matches only by meaning.
func TestMinCosine(t *testing.T) {
	cosines := []float64{-.5, 0, .2, .26, .3, .34, .9}
	const query = "restart the kubernetes deployment"
	ix := indexOfCosines(t, query, cosines)
	r := ix.Rank(ix.Query(query), fullSet(len(cosines)), 10, Options{})
	if r.Total != 3 || len(r.Hits) != 3 {
		t.Fatalf("%d matches, want the cosines .9, .34 and .3: %+v", r.Total, r.Hits)
	}
	for n, h := range r.Hits {
		cos := cosines[len(cosines)-1-n]
		if h.Doc != len(cosines)-1-n || math.Abs(h.Semantic-cos*cos) > .01 || math.Abs(h.Score-.4*h.Semantic) > 1e-9 {
			t.Errorf("hit %d = %+v, want the document with cosine %v", n, h, cos)
		}
	}
	if r := ix.Rank(ix.Query(query), fullSet(len(cosines)), 10, Options{Lexical: true}); r.Total != 0 {
		t.Errorf("%d matches by words, want none", r.Total)
	}
}

// indexOfCosines returns an index of documents without words. Their vectors have the given cosines
// with the query's vector.
func indexOfCosines(t *testing.T, query string, cosines []float64) *Index {
	t.Helper()
	toward := vectorOf(query)
	unit(toward)
	r := rand.New(rand.NewPCG(15, 16))
	aside := make([]float64, len(toward))
	dot := 0.0
	for i := range aside {
		aside[i] = r.NormFloat64()
		dot += aside[i] * toward[i]
	}
	for i := range aside {
		aside[i] -= dot * toward[i]
	}
	unit(aside)
	return indexOfVectors(t, len(cosines), func(doc, i int) float64 {
		return cosines[doc]*toward[i] + math.Sqrt(1-cosines[doc]*cosines[doc])*aside[i]
	})
}

// vectorOf returns the sum of the vectors of a text's words.
func vectorOf(text string) []float64 {
	table := embedding.Default()
	sum := make([]float64, table.Dim())
	for _, w := range SplitWords(text) {
		table.Add(sum, w, 1)
	}
	return sum
}

// indexOfVectors returns an index of n documents without words, with the given numbers as vectors.
func indexOfVectors(t testing.TB, n int, number func(doc, i int) float64) *Index {
	t.Helper()
	table := embedding.Default()
	b := builder{table: &table}
	sum, codes := make([]float64, table.Dim()), make([]int8, table.Dim())
	for doc := range n {
		for i := range sum {
			sum[i] = number(doc, i)
		}
		b.addVector(embedding.Quantize(codes, sum), codes)
	}
	ix, err := Open(b.encode(n, embedding.SHA256))
	require.OK(t, err)
	return ix
}

// unit scales v to length 1.
func unit(v []float64) {
	squares := 0.0
	for _, x := range v {
		squares += x * x
	}
	for i := range v {
		v[i] /= math.Sqrt(squares)
	}
}
