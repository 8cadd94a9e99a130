package search

import (
	"math"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/catalog/search/embedding"
)

// A query that exceeds these limits is cut. It is not refused, because the request of an agent is
// usually in the first lines of its text. The limits exist because an answer must not take long.
const (
	maxQueryBytes = 16 << 10
	maxQueryWords = 128 // different words
)

// A Query is the analyzed text of a query. [Index.Rank] can rank any number of views for it. The
// zero Query matches nothing.
type Query struct {
	stems   []string // different stems, in the order of their first use
	weights []float64
	vector  vector
	norm    float32 // length of vector; 0: no word of the query has a vector

	intent intent
	words  []queryWord // different words, in the order of their first use
}

// A queryWord is a word of a query.
type queryWord struct {
	text, stem string
	at         int // index of the stem in [Query.stems]
	weight     float64
}

// Query analyzes the text of a query.
func (ix *Index) Query(text string) Query {
	text = text[:min(len(text), maxQueryBytes)]
	in := intentOf(text)
	kept := in.withoutNegated(text)
	q := ix.query(kept, literals(kept))
	if len(q.words) == 0 && len(in.clauses) > 0 { // only negated clauses name objects, so keep their objects
		for i := range in.clauses {
			in.clauses[i].to = in.clauses[i].object
		}
		kept = in.withoutNegated(text)
		q = ix.query(kept, literals(kept))
	}
	q.intent = in
	return q
}

// query returns a Query without its intent. kinds are the words for the literals in the text.
func (ix *Index) query(text string, kinds []string) Query {
	order, counts := countWords(SplitWords(text), maxQueryWords)
	for _, kind := range kinds {
		if !slices.Contains(order, kind) {
			order, counts = append(order, kind), append(counts, 1)
		}
	}
	var room [usualDim]float64
	sum := ix.zeros(&room)
	q := Query{words: make([]queryWord, len(order))}
	times := make([]int, 0, len(order)) // number of uses of each stem
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
	q.vector, q.norm = queryVector(sum)
	return q
}

// usualDim is the number of elements of a vector in the table of this program.
const usualDim = 256

// zeros returns a zero vector, in the memory of room if that suffices.
func (ix *Index) zeros(room *[usualDim]float64) []float64 {
	if dim := ix.table.Dim(); dim <= len(room) {
		return room[:dim]
	}
	return make([]float64, ix.table.Dim())
}

// queryVector returns the vector of a sum in its form for comparisons, and its length.
func queryVector(sum []float64) (v vector, norm float32) {
	codes := make([]int8, len(sum))
	norm = embedding.Quantize(codes, sum)
	return newVector(codes), norm
}

// countWords returns the different words in the list all, at most as many as the argument most, in
// the order of their first use. It also returns how often each word occurs.
func countWords(all []string, most int) (order []string, counts []int) {
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

// emphasis returns the weight of a word that occurs n times in a query.
func emphasis(n int) float64 { return 1 + math.Log(float64(n)) }
