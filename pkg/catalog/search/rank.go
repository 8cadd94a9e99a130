package search

import (
	"math"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// The weights of the two signals. The values were chosen with public query sets:
// docs/search-quality.md.
const (
	semanticShare = .4  // λ
	minCosine     = .28 // minimum cosine for a match of a document without a word of the query
)

// A mixing says how a ranking combines the two signals, and which documents match.
type mixing struct {
	share     float64 // of the semantic signal, 0…1
	threshold float64 // minimum cosine of a match by meaning
	exact     bool    // do not correct misspelled words
	clash     float64 // share of the score that a tool loses if its verb is not the query's
	negation  float64 // share that the tool loses if the query rules out its verb

	// The options below are only for measurements.
	stemsAlone bool // correct misspelled words only by the view's stems, not in the vector
	noKinds    bool // add no words for literals to the query
}

func fusedMixing() mixing {
	return mixing{share: semanticShare, threshold: minCosine, clash: clashCost, negation: negationCost}
}

func lexicalMixing() mixing {
	return mixing{threshold: math.Inf(1), clash: clashCost, negation: negationCost}
}

// Rank returns the best matches of q among the documents of view, at most limit, and how many
// match. A document matches if it has a word of the query, or if its meaning is close. The same
// query, view and documents of the view give the same Result to the last bit, independent of the
// other documents.
func (ix *Index) Rank(q Query, view tool.Set, limit int, o Options) Result {
	if !o.Matched {
		return ix.rank(q, view, limit, ix.mixing(o), nil)
	}
	matched := tool.NewSet(ix.docs)
	out := ix.rank(q, view, limit, ix.mixing(o), matched)
	out.Matched = matched
	return out
}

// Outranking returns the documents of a that match better than every document of b.
//
// Outranking scores both sets as parts of one view, because the scores of two views are not
// comparable: a score is the share of the query's weight that a document reaches, and a word
// that no document of a view contains has no weight in that view.
func (ix *Index) Outranking(q Query, a, b tool.Set, o Options) tool.Set {
	both := tool.NewSet(ix.docs)
	if both.AddAll(below(a, ix.docs)); both.Len() == 0 {
		return both
	}
	both.AddAll(below(b, ix.docs))
	s := ix.scan(q, both, ix.mixing(o))
	defer s.end()
	type part struct {
		hits []Hit
		best float64
	}
	parts := make([]part, s.parts)
	s.each(func(n int, h Hit) {
		if p := &parts[n]; b.Has(h.Doc) {
			p.best = max(p.best, h.Score)
		} else if h.Score > p.best { // other hits cannot exceed the best of all parts
			p.hits = append(p.hits, h)
		}
	})
	best := 0.0
	for _, p := range parts {
		best = max(best, p.best)
	}
	better := tool.NewSet(ix.docs)
	for _, p := range parts {
		for _, h := range p.hits {
			if h.Score > best {
				better.Add(h.Doc)
			}
		}
	}
	return better
}

func (ix *Index) mixing(o Options) mixing {
	if o.Lexical || !ix.Vectors() {
		return lexicalMixing()
	}
	return fusedMixing()
}

// rank ranks a view. It adds the matching documents to matched, if matched is not nil.
func (ix *Index) rank(q Query, view tool.Set, limit int, m mixing, matched tool.Set) Result {
	if below(view, ix.docs).Len() == 0 { // in an empty view, every word would count as misspelled
		return Result{}
	}
	s := ix.scan(q, view, m)
	defer s.end()
	limit = min(max(limit, 0), ix.docs)
	parts := make([]topK, s.parts)
	for n := range parts {
		parts[n].limit = limit
	}
	s.each(func(n int, h Hit) {
		parts[n].add(h)
		if matched != nil {
			matched.Add(h.Doc) // safe, because no two parts share a uint64 of the set
		}
	})
	best := &parts[0]
	for n := range parts[1:] {
		best.merge(&parts[n+1])
	}
	return best.result()
}

// below returns the members of s that are less than n.
func below(s tool.Set, n int) tool.Set {
	words := (n + 63) / 64
	if len(s) < words {
		return s
	}
	if s = s[:words]; n%64 == 0 || s[words-1]>>(n%64) == 0 {
		return s
	}
	s = slices.Clone(s)
	s[words-1] &= 1<<(n%64) - 1
	return s
}

// A queryTerm is a term of the query, or of its correction, with its frequency in the view and its
// weight in the query.
type queryTerm struct {
	term
	df     int
	weight float64
}

// knownTerms returns the stems of q, in the order of q, with their frequencies in the view. A
// frequency may be 0.
func (ix *Index) knownTerms(q Query, view tool.Set) []queryTerm {
	out := make([]queryTerm, len(q.stems))
	for i, s := range q.stems {
		t := ix.find(s)
		out[i] = queryTerm{t, t.frequency(view), q.weights[i]}
	}
	return out
}

// resolve returns the terms of the view for the stems of a query, in the order of the query. It
// replaces misspelled stems, unless exact is set. known is the result of knownTerms.
func (ix *Index) resolve(known []queryTerm, view tool.Set, c correction, exact bool) []queryTerm {
	if !slices.ContainsFunc(known, func(w queryTerm) bool { return w.df == 0 }) {
		return known
	}
	out := make([]queryTerm, 0, len(known))
	place := make(map[string]int, len(known))
	add := func(w queryTerm) {
		if at, ok := place[w.text]; ok {
			out[at].weight = max(out[at].weight, w.weight)
			return
		}
		place[w.text] = len(out)
		out = append(out, w)
	}
	for _, w := range known {
		if w.df > 0 {
			add(w)
			continue
		}
		if exact || !misspellable(w.text) {
			continue
		}
		near := ix.nearIn(view, w.text, c.stems[w.text])
		for _, n := range near {
			n.weight = replacedShare / float64(len(near))
			add(n)
		}
	}
	return out
}

// nearIn returns the terms of the view that can replace a misspelled stem: the terms at one edit
// from stem, and the terms of corrections.
func (ix *Index) nearIn(view tool.Set, stem string, corrections []string) (near []queryTerm) {
	texts := ix.near(stem)
	for _, m := range corrections {
		if !slices.Contains(texts, m) {
			texts = append(texts, m)
		}
	}
	for _, text := range texts {
		t := ix.find(text)
		if df := t.frequency(view); df > 0 {
			near = append(near, queryTerm{term: t, df: df})
		}
	}
	return near
}
