package search

import (
	"encoding/binary"
	"math"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A scan compares one query with the documents of one view.
type scan struct {
	ix       *Index
	view     tool.Set // only documents of the index
	mixing   mixing
	vector   vector // of the query, with misspelled words corrected
	norm     float32
	semantic bool
	parts    int            // number of parts that run at the same time
	factors  [verbs]float64 // of a tool's score, by the class of its verb

	// scores has the weight of the query's words in each document, and 0 outside the view. mass is
	// the weight that the endless repetition of all known words of the query would give.
	scores []float64
	mass   float64
}

// scans reuses memory, because the scores of a large catalog need a megabyte for each ranking.
var scans = sync.Pool{New: func() any { return new(scan) }}

// scan computes the weights of a query's words in a view, and adds them to the scores of the
// documents. The caller must call end.
func (ix *Index) scan(q Query, view tool.Set, m mixing) *scan {
	view = below(view, ix.docs)
	known, c := ix.knownTerms(q, view), correction{vector: q.vector, norm: q.norm}
	if !m.exact && !m.stemsAlone {
		c = ix.correct(q, known, view)
	}
	s := scans.Get().(*scan)
	*s = scan{
		ix: ix, view: view, mixing: m, vector: c.vector, norm: c.norm,
		semantic: m.share > 0 && c.norm > 0 && len(c.vector.codes) == ix.dim,
		parts:    1,
		factors:  q.intent.factors(m),
		scores:   makeZeros(s.scores, len(view)*64),
	}
	s.addWords(ix.resolve(known, view, c, m.exact))
	now := int(scanning.Add(1))
	if n := len(view) * 64 / partSize; n > 1 {
		s.parts = max(1, min(n, runtime.GOMAXPROCS(0)/now, maxParts))
	}
	return s
}

// end releases the memory of the scan.
func (s *scan) end() {
	scanning.Add(-1)
	*s = scan{scores: s.scores}
	scans.Put(s)
}

// makeZeros returns n zeros, in the memory of s if that suffices.
func makeZeros(s []float64, n int) []float64 {
	if cap(s) < n {
		return make([]float64, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// addWords adds the BM25F weight of each term to the score of each document of the view.
func (s *scan) addWords(terms []queryTerm) {
	n := float64(s.view.Len())
	for _, t := range terms {
		df := float64(t.df)
		weight := t.weight * math.Log(1+(n-df+.5)/(df+.5))
		s.mass += float64(weight * (saturation + 1))
		for _, p := range t.in {
			scores, docs := s.scores[min(p.segment.first, len(s.scores)):], p.segment.docs
			for list := p.segment.list(p.number); len(list) >= 8; list = list[8:] {
				doc, x := firstPosting(list)
				if doc < docs && s.view.Has(p.segment.first+doc) {
					scores[doc] += float64(weight * x)
				}
			}
		}
	}
}

// scanning counts the scans that have begun and not ended.
var scanning atomic.Int32

// A scan handles a large view in parts that run at the same time. It handles a small view on one
// processor, so that other requests can use the other processors. Concurrent scans share the
// processors.
const (
	partSize = 16 << 10 // documents
	maxParts = 4        // at the same time
)

// each calls f with every matching document of the view, and with the number of its part. Documents
// of one part come in the order of their numbers. The parts run at the same time.
func (s *scan) each(f func(part int, h Hit)) {
	var all sync.WaitGroup
	for n := 1; n < s.parts; n++ {
		all.Go(func() { s.part(n, f) })
	}
	s.part(0, f)
	all.Wait()
}

// part works like each, but for one part. A part ends at the end of a word of the set. part scans
// consecutive documents together.
func (s *scan) part(part int, f func(int, Hit)) {
	from, to := part*len(s.view)/s.parts, (part+1)*len(s.view)/s.parts
	segments, in := s.ix.segments, (*segment)(nil)
	var room [64]int32
	for word := from; word < to; word++ {
		for set := s.view[word]; set != 0; {
			at := bits.TrailingZeros64(set)
			dots, doc := room[:bits.TrailingZeros64(^(set>>at))], word*64+at
			for in == nil || doc >= in.first+in.docs {
				in, segments = segments[0], segments[1:]
			}
			dots = dots[:min(len(dots), in.first+in.docs-doc)]
			if s.semantic {
				s.vector.products(dots, in.vectors[(doc-in.first)*in.dim:])
			}
			set &^= (1<<len(dots) - 1) << at
			s.run(doc, dots, in, func(h Hit) { f(part, h) })
		}
	}
}

// run calls f with the matching documents among the len(dots) documents from first on, which are in
// segment in. If vectors count, dots has the products of their vectors and the query's vector.
func (s *scan) run(first int, dots []int32, in *segment, f func(Hit)) {
	lowest := s.mixing.threshold - 1e-9 // a margin, so that rounding does not exclude a match
	for i, dot := range dots {
		doc, lengths := first+i, 0.0
		if s.semantic {
			lengths = float64(s.norm) * in.length(doc-in.first)
		}
		if s.scores[doc] == 0 && lengths > 0 && float64(dot) < lowest*lengths {
			continue
		}
		if h, ok := s.match(doc, float64(dot), lengths, in.verb(doc-in.first)); ok {
			f(h)
		}
	}
}

// match scores a document and reports whether it matches. dot is the product of its vector and the
// query's vector. lengths is the product of their lengths, or 0 without a vector. class is the
// class of the document's verb.
func (s *scan) match(doc int, dot, lengths float64, class verb) (Hit, bool) {
	h, cos := Hit{Doc: doc}, 0.0
	if lengths > 0 {
		cos = max(-1, min(1, dot/lengths))
	}
	if x := s.scores[doc]; x > 0 {
		h.Lexical = min(x/s.mass, 1)
	}
	if h.Lexical == 0 && !(cos >= s.mixing.threshold) {
		return h, false
	}
	if s.semantic {
		h.Semantic = max(0, cos) * max(0, cos)
	}
	// The conversions prevent a fused step, whose bits would depend on the processor.
	h.Score = float64((1-s.mixing.share)*h.Lexical) + float64(s.mixing.share*h.Semantic)
	h.Score = round(h.Score * s.factors[class])
	return h, true
}

// length returns the length of a document's vector, or 0 if it has none.
func (s *segment) length(doc int) float64 {
	norm := float64(math.Float32frombits(binary.LittleEndian.Uint32(s.norms[4*doc:])))
	if !(norm >= 1) { // no vector, or damaged bytes
		return 0
	}
	return norm
}
