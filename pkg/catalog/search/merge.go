package search

import (
	"github.com/portcullis-mcp/portcullis/pkg/catalog/search/embedding"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Join returns an index over the documents of all parts. The numbers of a part's documents follow
// the numbers of the previous part. Results equal the results of one index over all documents, to
// the last bit. The parts stay usable, and Join copies no bytes.
//
// If a part has documents but no vectors that this program can use, the joined index ranks only by
// words, as one index over all documents would.
func Join(parts ...*Index) *Index {
	out := &Index{table: embedding.Default()}
	out.dim = out.table.Dim()
	for _, p := range parts {
		for _, s := range p.segments {
			if s.docs == 0 {
				continue
			}
			moved := *s
			moved.first = out.docs
			out.docs += s.docs
			out.dim = min(out.dim, s.dim)
			out.segments = append(out.segments, &moved)
		}
	}
	return out
}

// A term is a word of the documents, in any segment.
type term struct {
	text string
	in   []place // by segment; empty: no document has it
}

// A place is the number of a term in a segment.
type place struct {
	segment *segment
	number  int
}

// find returns the term with this text.
func (ix *Index) find(text string) term {
	t := term{text: text}
	for _, s := range ix.segments {
		if i, ok := s.find(text); ok {
			t.in = append(t.in, place{s, i})
		}
	}
	return t
}

// frequency returns how many documents of the view have the term.
func (t term) frequency(view tool.Set) int {
	n := 0
	for _, p := range t.in {
		for list := p.segment.list(p.number); len(list) >= 8; list = list[8:] {
			if doc, _ := firstPosting(list); doc < p.segment.docs && view.Has(p.segment.first+doc) {
				n++
			}
		}
	}
	return n
}
