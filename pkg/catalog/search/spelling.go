package search

import (
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// correction is what a query means in a view, in which some of its words may be misspelt.
type correction struct {
	stems  map[string][]string // corrections, by the stem in the query; nil: nothing is misspelt
	vector vector              // of the query, with misspelt words corrected
	norm   float32
}

// correct replaces the words of q that neither the token table nor a document of the view has,
// since their pieces have other meanings. The corrections are the words of the table at one edit
// whose stems the view has; they share the weight of a misspelt word.
//
// known are the stems of q, as the view has them.
func (ix *Index) correct(q Query, known []queryTerm, view tool.Set) correction {
	c := correction{vector: q.vector, norm: q.norm}
	var meant map[int][]queryWord
	for i, w := range q.words {
		if known[w.at].df > 0 || !misspellable(w.text) {
			continue
		}
		for _, m := range ix.knownNear(w.text) {
			if ix.find(m.stem).frequency(view) == 0 {
				continue
			}
			if meant == nil {
				meant = map[int][]queryWord{}
			}
			meant[i] = append(meant[i], m)
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
		if meant[i] == nil {
			ix.table.Add(sum, w.text, w.weight)
		}
		for _, m := range meant[i] {
			ix.table.Add(sum, m.text, misspelt*w.weight/float64(len(meant[i])))
		}
	}
	c.vector, c.norm = quantised(sum)
	return c
}
