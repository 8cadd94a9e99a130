package search

import (
	"github.com/kljensen/snowball/english"

	"github.com/portcullis-mcp/portcullis/pkg/search/words"
)

// stem returns the form that a word of a query and a word of a tool are
// compared in. Pairs of CJK characters stay as they are.
func stem(word string) string {
	if words.HasCJK(word) {
		return word
	}
	return english.Stem(word, true)
}

// A tally counts, for each word of a document, how often each field has it.
type tally struct {
	order  []string // words as they first came
	counts map[string]*[fields]int
}

func newTally() *tally { return &tally{counts: map[string]*[fields]int{}} }

func (t *tally) add(word string, field int) {
	c, ok := t.counts[word]
	if !ok {
		c = new([fields]int)
		t.counts[word] = c
		t.order = append(t.order, word)
	}
	c[field]++
}

// each calls yield with every word, as they first came, and its weighted count:
// x of BM25F, before saturation. lengths are those of the document's fields.
func (t *tally) each(lengths [fields]int, yield func(word string, x float64)) {
	w := weightings()
	var per [fields]float64
	for f := range per {
		per[f] = w[f].weight / (1 - w[f].b + w[f].b*float64(lengths[f])/w[f].mean)
	}
	for _, word := range t.order {
		x := 0.0
		for f, n := range t.counts[word] {
			x += float64(per[f] * float64(n)) // the conversion rounds: no processor may fuse this into one step
		}
		yield(word, x)
	}
}
