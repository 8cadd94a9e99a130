package search

import (
	"github.com/kljensen/snowball/english"
)

// stem returns the form that a word of a query and a word of a tool are
// compared in. Pairs of CJK characters stay as they are.
func stem(word string) string {
	if hasCJK(word) {
		return word
	}
	return english.Stem(word, true)
}

// A tally counts, for each word of a document, how often each field has it. A word is its number.
// It is used for one document after the other.
type tally struct {
	order  []uint32 // words of the document, as they first came
	counts []counts // of every word that was ever added, by its number; all zero between two documents
}

// counts says how often each field has a word.
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

// each calls yield with every word, as they first came, and its weighted count:
// x of BM25F, before saturation. per is what one word of each field counts. It forgets the document.
func (t *tally) each(per *[fields]float64, yield func(word uint32, x float64)) {
	for _, word := range t.order {
		x := 0.0
		for f, n := range t.counts[word] {
			x += float64(per[f] * float64(n)) // the conversion rounds: no processor may fuse this into one step
		}
		t.counts[word] = counts{}
		yield(word, x)
	}
	t.order = t.order[:0]
}

// worth returns what one word of each field counts in a document whose fields have these lengths.
func worth(lengths *[fields]int) (per [fields]float64) {
	for f, w := range weightings() {
		per[f] = w.weight / (1 - w.b + w.b*float64(lengths[f])/w.mean)
	}
	return per
}
