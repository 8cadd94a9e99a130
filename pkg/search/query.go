package search

import (
	"math"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/search/embedding"
	"github.com/portcullis-mcp/portcullis/pkg/search/words"
)

// A query beyond these bounds is cut, not refused: what an agent asks for stands
// in the first lines of what it pastes, and an answer must not take long.
const (
	maxQueryBytes = 16 << 10
	maxQueryWords = 128 // different ones
)

// A Query is the analysed text of a query. It can be ranked against any number
// of views. The zero Query matches nothing.
type Query struct {
	stems   []string // different ones, as they first came
	weights []float64
	vector  []int32 // of int8
	norm    float32 // length of vector; 0: no word of the query has one
}

// Query analyses the text of a query.
func (ix *Index) Query(text string) Query {
	order, counts := tallied(words.Split(text[:min(len(text), maxQueryBytes)]), maxQueryWords)
	sum := make([]float64, ix.table.Dim())
	var stems []string
	for i, w := range order {
		ix.table.Add(sum, w, emphasis(counts[i]))
		stems = append(stems, slices.Repeat([]string{stem(w)}, counts[i])...)
	}
	q := Query{vector: make([]int32, len(sum))}
	q.stems, counts = tallied(stems, len(stems))
	for _, n := range counts {
		q.weights = append(q.weights, emphasis(n))
	}
	codes := make([]int8, len(sum))
	q.norm = embedding.Quantise(codes, sum)
	for i, c := range codes {
		q.vector[i] = int32(c)
	}
	return q
}

// tallied returns the first most different words of all, and how often each comes.
func tallied(all []string, most int) (order []string, counts []int) {
	place := make(map[string]int, min(len(all), most))
	for _, w := range all {
		at, ok := place[w]
		if !ok {
			if len(order) == most {
				continue
			}
			at = len(order)
			place[w] = at
			order = append(order, w)
			counts = append(counts, 0)
		}
		counts[at]++
	}
	return order, counts
}

// emphasis is the weight of a word that a query has n times.
func emphasis(n int) float64 { return 1 + math.Log(float64(n)) }
