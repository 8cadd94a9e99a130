package search

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
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

	// What a measurement leaves out.
	stemsAlone bool // misspelt words are corrected by the stems of the view alone, and not in the vector
	noKinds    bool // literals add no word to the query
}

func fused() mixing { return mixing{share: semanticShare, threshold: minCosine} }

func lexical() mixing { return mixing{threshold: math.Inf(1)} }

// Rank returns the best matches of q among the documents of view, at most limit,
// and how many match. A document matches if it has a word of the query, or
// if its meaning is close. The same query, view and documents of the view give the
// same Result to the last bit, whatever else the index holds.
func (ix *Index) Rank(q Query, view tool.Set, limit int, o Options) Result {
	if !o.Matched {
		return ix.rank(q, view, limit, ix.mixing(o))
	}
	best, matched := ix.top(limit), tool.NewSet(ix.docs)
	ix.each(q, view, ix.mixing(o), func(h Hit) {
		matched.Add(h.Doc)
		best.add(h)
	})
	out := best.result()
	out.Matched = matched
	return out
}

// Outranking returns the documents of a that match better than every document of b.
//
// Both are scored as parts of one view. The results of two rankings cannot be compared:
// a score is the share of the query's weight that a document reaches, and a word that no
// document of a view has weighs nothing there.
func (ix *Index) Outranking(q Query, a, b tool.Set, o Options) tool.Set {
	var of []Hit
	best := 0.0
	both := tool.NewSet(ix.docs)
	both.AddAll(below(a, ix.docs))
	both.AddAll(below(b, ix.docs))
	ix.each(q, both, ix.mixing(o), func(h Hit) {
		if b.Has(h.Doc) {
			best = max(best, h.Score)
		} else {
			of = append(of, h)
		}
	})
	better := tool.NewSet(ix.docs)
	for _, h := range of {
		if h.Score > best {
			better.Add(h.Doc)
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

func (ix *Index) rank(q Query, view tool.Set, limit int, m mixing) Result {
	best := ix.top(limit)
	ix.each(q, view, m, best.add)
	return best.result()
}

func (ix *Index) top(limit int) *top { return &top{limit: min(max(limit, 0), ix.docs)} }

// each calls f with every document of the view that matches, by number.
func (ix *Index) each(q Query, view tool.Set, m mixing, f func(Hit)) {
	view = below(view, ix.docs)
	if m.exact || m.stemsAlone {
		q.misspelt = nil
	}
	c := ix.correct(q, view)
	words := ix.byWords(q, view, c, m.exact)
	q.vector, q.norm = c.vector, c.norm
	semantic := m.share > 0 && q.norm > 0 && len(q.vector.codes) == ix.dim
	in := 0 // the segment of doc
	for doc := range view.All() {
		h := Hit{Doc: doc, Lexical: words[doc]}
		cos := 0.0
		if semantic {
			for doc >= ix.segments[in].first+ix.segments[in].docs {
				in++
			}
			cos = ix.segments[in].cosine(q, doc-ix.segments[in].first)
			h.Semantic = max(0, cos) * max(0, cos)
		}
		if h.Lexical > 0 || cos >= m.threshold {
			// The conversions keep a processor from fusing the steps.
			h.Score = round(float64((1-m.share)*h.Lexical) + float64(m.share*h.Semantic))
			f(h)
		}
	}
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

// byWords returns, by document, the share of the query's weight that the document
// reaches by BM25F: its sum over what the endless repetition of all known words
// of the query would give. It is 0 outside the view.
func (ix *Index) byWords(q Query, view tool.Set, c corrected, exact bool) []float64 {
	scores := make([]float64, len(view)*64)
	n, mass := float64(view.Len()), 0.0
	for _, t := range ix.resolve(q, view, c, exact) {
		df := float64(t.df)
		weight := t.weight * math.Log(1+(n-df+.5)/(df+.5))
		mass += float64(weight * (saturation + 1))
		for doc, x := range t.postings() {
			if view.Has(doc) {
				scores[doc] += float64(weight * x)
			}
		}
	}
	for i, s := range scores {
		if s > 0 {
			scores[i] = min(s/mass, 1)
		}
	}
	return scores
}

// A wanted term is one that the view has and the query, or its correction, asks for.
type wanted struct {
	term
	df     int
	weight float64
}

// resolve finds the terms of the view that q asks for, in the order of q.
func (ix *Index) resolve(q Query, view tool.Set, c corrected, exact bool) []wanted {
	out := make([]wanted, 0, len(q.stems))
	place := make(map[string]int, len(q.stems))
	add := func(t term, df int, weight float64) {
		if at, ok := place[t.text]; ok {
			out[at].weight = max(out[at].weight, weight)
			return
		}
		place[t.text] = len(out)
		out = append(out, wanted{t, df, weight})
	}
	for i, s := range q.stems {
		t := ix.find(s)
		if df := ix.frequency(t, view); df > 0 {
			add(t, df, q.weights[i])
			continue
		}
		if exact || !misspellable(s) {
			continue
		}
		near := ix.nearIn(view, s, c.stems[s])
		for _, t := range near {
			add(t.term, t.df, misspelt/float64(len(near)))
		}
	}
	return out
}

// nearIn returns the terms of the view that a stem may be a misspelling of: those at one edit from it, and
// the stems of the words that were meant.
func (ix *Index) nearIn(view tool.Set, stem string, meant []string) (near []wanted) {
	texts := ix.near(stem)
	for _, m := range meant {
		if !slices.Contains(texts, m) {
			texts = append(texts, m)
		}
	}
	for _, text := range texts {
		t := ix.find(text)
		if df := ix.frequency(t, view); df > 0 {
			near = append(near, wanted{term: t, df: df})
		}
	}
	return near
}

// frequency returns how many documents of the view have a term.
func (ix *Index) frequency(t term, view tool.Set) int {
	n := 0
	for doc := range t.postings() {
		if view.Has(doc) {
			n++
		}
	}
	return n
}

// cosine returns the cosine of the query's vector and a document's, 0 if the
// document has none.
func (s *segment) cosine(q Query, doc int) float64 {
	norm := float64(math.Float32frombits(binary.LittleEndian.Uint32(s.norms[4*doc:])))
	if !(norm >= 1) { // no vector; in damaged bytes, anything
		return 0
	}
	dot := q.vector.product(s.vectors[doc*s.dim : (doc+1)*s.dim])
	return max(-1, min(1, float64(dot)/(float64(q.norm)*norm)))
}
