package search

import (
	"math"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// How the two signals are added. The values were chosen over public query sets:
// docs/search-quality.md.
const (
	semanticShare = .4  // λ
	minCosine     = .28 // a document without a word of the query matches from here on
)

// mixing is how one ranking adds the signals and what it takes for a match.
type mixing struct {
	share     float64 // of the semantic signal, 0…1
	threshold float64 // the least cosine of a match by meaning
	exact     bool    // misspelt words are not corrected
	clash     float64 // share of its score that a tool of another verb than the query's loses
	negation  float64 // and one of a verb that the query rules out

	// Options for measurements alone.
	stemsAlone bool // misspelt words are corrected by the stems of the view alone, and not in the vector
	noKinds    bool // literals add no word to the query
}

func fused() mixing {
	return mixing{share: semanticShare, threshold: minCosine, clash: clashCost, negation: negationCost}
}

func lexical() mixing {
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
// Both are scored as parts of one view. The results of two rankings cannot be compared:
// a score is the share of the query's weight that a document reaches, and a word that no
// document of a view has weighs nothing there.
func (ix *Index) Outranking(q Query, a, b tool.Set, o Options) tool.Set {
	both := tool.NewSet(ix.docs)
	if both.AddAll(below(a, ix.docs)); both.Len() == 0 {
		return both
	}
	both.AddAll(below(b, ix.docs))
	s := ix.scan(q, both, ix.mixing(o))
	defer s.end()
	type part struct {
		of   []Hit
		best float64
	}
	parts := make([]part, s.parts)
	s.each(func(n int, h Hit) {
		if p := &parts[n]; b.Has(h.Doc) {
			p.best = max(p.best, h.Score)
		} else if h.Score > p.best { // what is not over its part's best so far is not over the best of all
			p.of = append(p.of, h)
		}
	})
	best := 0.0
	for _, p := range parts {
		best = max(best, p.best)
	}
	better := tool.NewSet(ix.docs)
	for _, p := range parts {
		for _, h := range p.of {
			if h.Score > best {
				better.Add(h.Doc)
			}
		}
	}
	return better
}

func (ix *Index) mixing(o Options) mixing {
	if o.Lexical || !ix.Vectors() {
		return lexical()
	}
	return fused()
}

// rank ranks a view, and puts what matches into matched; nil: nobody asks.
func (ix *Index) rank(q Query, view tool.Set, limit int, m mixing, matched tool.Set) Result {
	if below(view, ix.docs).Len() == 0 { // where every word of the query would count as misspelt
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
			matched.Add(h.Doc) // no two parts share a word of the set
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

// A queryTerm is a term of the view that the query, or its correction, asks for.
type queryTerm struct {
	term
	df     int
	weight float64
}

// knownTerms returns the stems of q with what the view has of them, if anything, in the order of q.
func (ix *Index) knownTerms(q Query, view tool.Set) []queryTerm {
	out := make([]queryTerm, len(q.stems))
	for i, s := range q.stems {
		t := ix.find(s)
		out[i] = queryTerm{t, t.frequency(view), q.weights[i]}
	}
	return out
}

// resolve finds the terms of the view that q asks for, in the order of q. known are its stems, as the
// view has them.
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
			n.weight = misspelt / float64(len(near))
			add(n)
		}
	}
	return out
}

// nearIn returns the terms of the view that a stem may be a misspelling of: those at one edit from it, and
// the stems of the words that were meant.
func (ix *Index) nearIn(view tool.Set, stem string, meant []string) (near []queryTerm) {
	texts := ix.near(stem)
	for _, m := range meant {
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
