package search

import (
	"math"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/catalog/search/embedding"
)

// A query beyond these bounds is cut, not refused: the request of an agent is usually in the first
// lines of its text, and an answer must not take long.
const (
	maxQueryBytes = 16 << 10
	maxQueryWords = 128 // different ones
)

// A Query is the analysed text of a query. It can be ranked against any number
// of views. The zero Query matches nothing.
type Query struct {
	stems   []string // different ones, as they first came
	weights []float64
	vector  vector
	norm    float32 // length of vector; 0: no word of the query has one

	intent intent
	words  []queryWord // different ones, as they first came
}

// A queryWord is a word of a query.
type queryWord struct {
	text, stem string
	at         int // position of the stem in the query
	weight     float64
}

// Query analyses the text of a query.
func (ix *Index) Query(text string) Query {
	text = text[:min(len(text), maxQueryBytes)]
	in := intentOf(text)
	kept := in.withoutNegated(text)
	q := ix.query(kept, literals(kept))
	if len(q.words) == 0 && len(in.clauses) > 0 { // a query that only rules out still says for what
		for i := range in.clauses {
			in.clauses[i].to = in.clauses[i].object
		}
		kept = in.withoutNegated(text)
		q = ix.query(kept, literals(kept))
	}
	q.intent = in
	return q
}

// query is Query without its intent, and with the words of the kinds of literals in the text.
func (ix *Index) query(text string, kinds []string) Query {
	order, counts := tallied(SplitWords(text), maxQueryWords)
	for _, kind := range kinds {
		if !slices.Contains(order, kind) {
			order, counts = append(order, kind), append(counts, 1)
		}
	}
	var room [usualDim]float64
	sum := ix.zeros(&room)
	q := Query{words: make([]queryWord, len(order))}
	times := make([]int, 0, len(order)) // that each stem comes
	for i, w := range order {
		s := stem(w)
		at := slices.Index(q.stems, s)
		if at < 0 {
			at = len(q.stems)
			q.stems, times = append(q.stems, s), append(times, 0)
		}
		times[at] += counts[i]
		q.words[i] = queryWord{text: w, stem: s, at: at, weight: emphasis(counts[i])}
		ix.table.Add(sum, w, q.words[i].weight)
	}
	q.weights = make([]float64, len(times))
	for i, n := range times {
		q.weights[i] = emphasis(n)
	}
	q.vector, q.norm = quantised(sum)
	return q
}

// usualDim is how many numbers a vector has in the table of this program.
const usualDim = 256

// zeros returns the vector of no words, in room if it has enough.
func (ix *Index) zeros(room *[usualDim]float64) []float64 {
	if dim := ix.table.Dim(); dim <= len(room) {
		return room[:dim]
	}
	return make([]float64, ix.table.Dim())
}

// quantised returns a vector as it is compared, and its length.
func quantised(sum []float64) (v vector, norm float32) {
	codes := make([]int8, len(sum))
	norm = embedding.Quantise(codes, sum)
	return newVector(codes), norm
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
