package search

import (
	"encoding/binary"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/search/embedding"
	"github.com/portcullis-mcp/portcullis/pkg/search/words"
)

// Build makes the bytes of an index over docs. The same docs give the same bytes
// on every machine. A document's number is its place in docs; equal scores are
// ordered by it, so docs are best given in the order of their ids.
func Build(docs []Doc) []byte {
	table := embedding.Default()
	return build(docs, &table, embedding.SHA256)
}

// BuildSeq is [Build] of docs as they come: between two of them the work can make room for other work.
func BuildSeq(docs iter.Seq[Doc]) []byte {
	table := embedding.Default()
	return buildSeq(docs, &table, embedding.SHA256)
}

// build is [Build] with any table. With the zero Table the index has no vectors.
func build(docs []Doc, table *embedding.Table, tableSum string) []byte {
	return buildSeq(slices.Values(docs), table, tableSum)
}

func buildSeq(docs iter.Seq[Doc], table *embedding.Table, tableSum string) []byte {
	b := builder{
		table:    table,
		postings: map[string][]posting{},
		stems:    map[string]string{},
		sum:      make([]float64, table.Dim()),
		vector:   make([]int8, table.Dim()),
	}
	n := 0
	for d := range docs {
		b.add(uint32(n), d)
		n++
	}
	return b.encode(n, tableSum)
}

// A posting says that a document has a term, and what that is worth:
// x·(k1+1)/(x+k1), which depends on the document alone.
type posting struct {
	doc    uint32
	weight float32
}

type builder struct {
	table    *embedding.Table
	postings map[string][]posting
	stems    map[string]string // of the words met so far: stemming is the dearest step
	norms    []byte
	vectors  []byte
	sum      []float64
	vector   []int8
}

// add appends document i to the postings and to the vectors.
func (b *builder) add(i uint32, d Doc) {
	terms, plain := newTally(), newTally()
	var lengths [fields]int
	for f, text := range d.texts() {
		for _, w := range words.Split(text) {
			lengths[f]++
			if f != fieldWords { // they say how people call the tool, and move nothing that it means
				plain.add(w, f)
			}
			terms.add(b.stem(w), f)
		}
	}
	terms.each(lengths, func(term string, x float64) {
		weight := float32(x * (saturation + 1) / (x + saturation))
		b.postings[term] = append(b.postings[term], posting{i, weight})
	})
	if b.table.Dim() == 0 {
		return
	}
	clear(b.sum)
	plain.each(lengths, func(word string, x float64) {
		b.table.Add(b.sum, word, x/(x+saturation))
	})
	b.addVector(embedding.Quantise(b.vector, b.sum), b.vector)
}

func (b *builder) addVector(norm float32, codes []int8) {
	b.norms = binary.LittleEndian.AppendUint32(b.norms, math.Float32bits(norm))
	for _, c := range codes {
		b.vectors = append(b.vectors, byte(c))
	}
}

func (b *builder) stem(word string) string {
	s, ok := b.stems[word]
	if !ok {
		s = stem(word)
		b.stems[word] = s
	}
	return s
}

// encode writes the index; its layout is described at [Open].
func (b *builder) encode(docs int, tableSum string) []byte {
	le := binary.LittleEndian
	terms := slices.Sorted(maps.Keys(b.postings))
	var texts, textEnds, listEnds, lists []byte
	postings := 0
	for _, term := range terms {
		texts = append(texts, term...)
		textEnds = le.AppendUint32(textEnds, uint32(len(texts)))
		postings += len(b.postings[term])
		listEnds = le.AppendUint32(listEnds, uint32(postings))
		for _, p := range b.postings[term] {
			lists = le.AppendUint32(lists, p.doc)
			lists = le.AppendUint32(lists, math.Float32bits(p.weight))
		}
	}
	dim := b.table.Dim()
	if dim == 0 {
		tableSum = ""
	}
	out := append([]byte(magic), make([]byte, headerSize-len(magic))...)
	for i, n := range []int{version, docs, len(terms), len(texts), postings, dim} {
		le.PutUint32(out[len(magic)+4*i:], uint32(n))
	}
	copy(out[sumAt:headerSize], tableSum)
	out = slices.Concat(out, textEnds, listEnds, texts, make([]byte, padding(len(texts))), lists, b.norms, b.vectors)
	return out
}
