package search

import (
	"github.com/kljensen/snowball/english"
)

// stem returns the form in which a search compares a word of a query and a word of a tool. Pairs of
// CJK characters stay unchanged.
func stem(word string) string {
	if hasCJK(word) {
		return word
	}
	return english.Stem(word, true)
}

// A tally counts how often each word of a document occurs in each field. It stores the number of a
// word instead of the word. The builder uses one tally for all documents, one after the other.
type tally struct {
	order  []uint32 // words of the document, in the order of their first use
	counts []counts // of every word of all documents, by its number; zero between two documents
}

// counts has the number of a word's uses in each field.
type counts [fields]uint32

func (t *tally) add(word uint32, field int) {
	if n := int(word) + 1 - len(t.counts); n > 0 {
		t.counts = append(t.counts, make([]counts, n)...)
	}
	c := &t.counts[word]
	if *c == (counts{}) {
		t.order = append(t.order, word)
	}
	c[field]++
}

// each calls yield with every word of the document, in the order of first use. x is the word's
// weighted count in BM25F, before saturation. per says how much one use counts in each field. After
// the call the tally is empty.
func (t *tally) each(per *[fields]float64, yield func(word uint32, x float64)) {
	for _, word := range t.order {
		x := 0.0
		for f, n := range t.counts[word] {
			x += float64(per[f] * float64(n)) // the conversion prevents a fused step
		}
		t.counts[word] = counts{}
		yield(word, x)
	}
	t.order = t.order[:0]
}

// fieldWeights returns how much one use of a word counts in each field of a document with these
// field lengths.
func fieldWeights(lengths *[fields]int) (per [fields]float64) {
	for f, w := range weightings() {
		per[f] = w.weight / (1 - w.b + w.b*float64(lengths[f])/w.mean)
	}
	return per
}
