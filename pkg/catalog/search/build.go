package search

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/catalog/search/embedding"
)

// Build makes the bytes of an index over docs. The same docs give the same bytes on every machine.
// A document's number is its place in docs. A search orders equal scores by this number, so pass
// docs in the order of their ids. The iterator may pause for other work between two docs.
func Build(docs iter.Seq[Doc]) []byte {
	table := embedding.Default()
	return build(docs, &table, embedding.SHA256)
}

// build is [Build] with any table. With the zero Table the index has no vectors.
func build(docs iter.Seq[Doc], table *embedding.Table, tableSum string) []byte {
	b := builder{
		grammar: tokenizer{Grammar: true},
		table:   table,
		words:   map[string]uint32{},
		terms:   map[string]uint32{},
		sum:     make([]float64, table.Dim()),
		vector:  make([]int8, table.Dim()),
	}
	n := 0
	for d := range docs {
		b.add(uint32(n), d)
		n++
	}
	return b.encode(n, tableSum)
}

// A posting says that a document contains a term. weight is x·(k1+1)/(x+k1), where x is the
// weighted count of the term in the document. So it does not depend on other documents.
type posting struct {
	term, doc uint32
	weight    float32
}

// A builder gathers postings and vectors. Tools share most words, so the builder does slow work
// once for each word, and then uses the word's number.
type builder struct {
	table    *embedding.Table
	words    map[string]uint32 // number of each word so far
	infos    []word            // by the number of the word
	pieces   []uint32          // word pieces of all words so far, word by word
	terms    map[string]uint32 // number of each term
	texts    []string          // of the terms, by number
	postings []posting         // in the order of the documents
	norms    []byte
	vectors  []byte

	// The fields below are for one document at a time.
	cutter      tokenizer
	grammar     tokenizer // keeps stop words, because some are verbs, such as get
	stems       tally     // by term
	vectorWords tally     // by word, for the vector
	sum         []float64
	vector      []int8
}

// A word has the data about one word of the documents.
type word struct {
	term     uint32
	from, to uint32 // the word's pieces are pieces[from:to]
}

// add appends document i to the postings and to the vectors.
func (b *builder) add(i uint32, d Doc) {
	var lengths [fields]int
	for f, text := range d.texts() {
		b.cutter.each(text, func(text []byte) {
			lengths[f]++
			w := b.number(text)
			if f != fieldWords { // the operator's words are only further names of the tool
				b.vectorWords.add(w, f)
			}
			b.stems.add(b.infos[w].term, f)
		})
	}
	per := fieldWeights(&lengths)
	b.stems.each(&per, func(term uint32, x float64) {
		b.postings = append(b.postings, posting{term, i, float32(x * (saturation + 1) / (x + saturation))})
	})
	b.addVerb(i, d)
	clear(b.sum)
	b.vectorWords.each(&per, func(w uint32, x float64) {
		b.table.AddPieces(b.sum, b.pieces[b.infos[w].from:b.infos[w].to], x/(x+saturation))
	})
	if b.table.Dim() > 0 {
		b.addVector(embedding.Quantize(b.vector, b.sum), b.vector)
	}
}

func (b *builder) addVector(norm float32, codes []int8) {
	b.norms = binary.LittleEndian.AppendUint32(b.norms, math.Float32bits(norm))
	for _, c := range codes {
		b.vectors = append(b.vectors, byte(c))
	}
}

// number returns the number of a word, and adds the word if it is new.
func (b *builder) number(text []byte) uint32 {
	if n, ok := b.words[string(text)]; ok {
		return n
	}
	s := string(text)
	w := word{term: b.term(stem(s)), from: uint32(len(b.pieces))}
	b.pieces = b.table.Pieces(b.pieces, s)
	w.to = uint32(len(b.pieces))
	n := uint32(len(b.infos))
	b.words[s], b.infos = n, append(b.infos, w)
	return n
}

// term returns the number of a term, and adds the term if it is new.
func (b *builder) term(text string) uint32 {
	n, ok := b.terms[text]
	if !ok {
		n = uint32(len(b.texts))
		b.terms[text], b.texts = n, append(b.texts, text)
	}
	return n
}

// encode writes the index; its layout is described at [Open].
func (b *builder) encode(docs int, tableSum string) []byte {
	le := binary.LittleEndian
	counts := make([]int, len(b.texts)) // of postings, by term
	for _, p := range b.postings {
		counts[p.term]++
	}
	var texts, textEnds, listEnds []byte
	next := make([]int, len(b.texts)) // position of the next posting of a term
	end := 0
	for _, text := range slices.Sorted(slices.Values(b.texts)) {
		term := b.terms[text]
		next[term] = end
		end += counts[term]
		texts = append(texts, text...)
		textEnds = le.AppendUint32(textEnds, uint32(len(texts)))
		listEnds = le.AppendUint32(listEnds, uint32(end))
	}
	lists := make([]byte, postingSize*end)
	for _, p := range b.postings {
		at := lists[postingSize*next[p.term]:]
		le.PutUint32(at, p.doc)
		le.PutUint32(at[4:], math.Float32bits(p.weight))
		next[p.term]++
	}
	dim := b.table.Dim()
	if dim == 0 {
		tableSum = ""
	}
	head := append([]byte(magic), make([]byte, headerSize-len(magic))...)
	for i, n := range []int{version, docs, len(b.texts), len(texts), end, dim} {
		le.PutUint32(head[len(magic)+4*i:], uint32(n))
	}
	copy(head[sumAt:headerSize], tableSum)
	return slices.Concat(head, textEnds, listEnds, texts, make([]byte, padding(len(texts))), lists, b.norms, b.vectors)
}
