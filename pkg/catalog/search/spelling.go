package search

import (
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A correction holds the replacements of a query's misspelled words in a view.
type correction struct {
	stems  map[string][]string // replacements, by the stem in the query; nil: none
	vector vector              // of the query, with misspelled words corrected
	norm   float32
}

// correct replaces the words of q that neither the token table nor a document of the view has,
// because their pieces have other meanings. The replacements are words of the table at one edit
// from the word, with stems that the view has. They share the weight of one misspelled word.
//
// known is the result of knownTerms.
func (ix *Index) correct(q Query, known []queryTerm, view tool.Set) correction {
	c := correction{vector: q.vector, norm: q.norm}
	var corrections map[int][]queryWord
	for i, w := range q.words {
		if known[w.at].df > 0 || !misspellable(w.text) {
			continue
		}
		for _, m := range ix.knownNear(w.text) {
			if ix.find(m.stem).frequency(view) == 0 {
				continue
			}
			if corrections == nil {
				corrections = map[int][]queryWord{}
			}
			corrections[i] = append(corrections[i], m)
			if c.stems == nil {
				c.stems = map[string][]string{}
			}
			if !slices.Contains(c.stems[w.stem], m.stem) {
				c.stems[w.stem] = append(c.stems[w.stem], m.stem)
			}
		}
	}
	if c.stems == nil || ix.dim == 0 {
		return c
	}
	var room [usualDim]float64
	sum := ix.zeros(&room)
	for i, w := range q.words {
		if corrections[i] == nil {
			ix.table.Add(sum, w.text, w.weight)
		}
		for _, m := range corrections[i] {
			ix.table.Add(sum, m.text, replacedShare*w.weight/float64(len(corrections[i])))
		}
	}
	c.vector, c.norm = queryVector(sum)
	return c
}
