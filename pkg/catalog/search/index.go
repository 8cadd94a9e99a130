package search

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sort"

	"github.com/portcullis-mcp/portcullis/pkg/catalog/search/embedding"
)

// errFormat means that this program cannot read the bytes as an index, because they are truncated,
// damaged or of another version. The next sync has to build the index again.
var errFormat = errors.New("not a search index of this version")

const (
	magic       = "PCINDEX\n"
	version     = 1
	sumAt       = len(magic) + 6*4
	sumSize     = 64
	headerSize  = sumAt + sumSize
	postingSize = 8
)

// An Index is one opened index, or several joined indexes. It is immutable and safe for concurrent
// use.
type Index struct {
	segments []*segment // in the order of their documents; none: no documents
	docs     int
	table    embedding.Table
	dim      int // numbers per vector; 0: rank only by words
}

// A segment holds the stored bytes of one index.
type segment struct {
	first       int // number of its first document
	docs, terms int
	textEnds    []byte // u32 × terms
	listEnds    []byte // u32 × terms
	texts       []byte
	lists       []byte // (u32 doc, f32 weight) × postings
	dim         int    // numbers per vector; 0: no vectors that this program can use
	norms       []byte // f32 × docs
	vectors     []byte // int8 × dim × docs
	verbs       []verb // of each document; nil: no class is known
}

// Open reads an index in place, so b must not change afterwards. It checks the sizes and the order
// of the terms' offsets, and reads the verb of each document. It fails if this program cannot read
// the bytes as an index.
//
// Open accepts an index without vectors, or with vectors of another token table. Such an index
// ranks only by words.
//
// The bytes, little endian:
//
//	 0  8 bytes   "PCINDEX\n"
//	 8  u32 × 6   version 1, documents, terms, length of the term texts, postings,
//	              numbers per vector (0: no vectors)
//	32  64 bytes  SHA-256 of the token table in hex, zeros without vectors
//	96  u32       end of each term's text
//	    u32       end of each term's postings, counted in postings
//	    bytes     terms in bytewise order, joined, zeros up to a multiple of 4
//	    postings  u32 document, f32 weight; postings of a term are in document order.
//	              A term of a zero byte and a digit has the documents of a class of verbs
//	    f32       length of each document's vector
//	    int8      vectors
func Open(b []byte) (*Index, error) {
	if len(b) < headerSize || string(b[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: no head", errFormat)
	}
	var head [6]int64
	for i := range head {
		head[i] = int64(binary.LittleEndian.Uint32(b[len(magic)+4*i:]))
	}
	if head[0] != version {
		return nil, fmt.Errorf("%w: version %d, want %d", errFormat, head[0], version)
	}
	docs, terms, texts, postings, dim := head[1], head[2], head[3], head[4], head[5]
	const most = 1 << 30 // keeps the sums below within an int64
	if docs > most || dim > most {
		return nil, fmt.Errorf("%w: %d documents of %d numbers", errFormat, docs, dim)
	}
	norms := int64(0)
	if dim > 0 {
		norms = 4 * docs
	}
	rest := b
	cut := func(n int64) (part []byte) {
		part, rest = rest[:n], rest[n:]
		return part
	}
	size := int64(headerSize) + 8*terms + texts + int64(padding(int(texts))) + 8*postings + norms + dim*docs
	if size != int64(len(b)) {
		return nil, fmt.Errorf("%w: %d bytes, want %d", errFormat, len(b), size)
	}
	table := embedding.Default()
	s := &segment{docs: int(docs), terms: int(terms)}
	sum := string(cut(int64(headerSize))[sumAt:])
	s.textEnds, s.listEnds, s.texts = cut(4*terms), cut(4*terms), cut(texts)
	cut(int64(padding(int(texts))))
	s.lists, s.norms, s.vectors = cut(8*postings), cut(norms), rest
	if sum == embedding.SHA256 && int(dim) == table.Dim() {
		s.dim = int(dim)
	}
	if !ascending(s.textEnds, texts) || !ascending(s.listEnds, postings) {
		return nil, fmt.Errorf("%w: offsets out of order", errFormat)
	}
	s.verbs = s.readVerbs()
	return &Index{segments: []*segment{s}, docs: s.docs, table: table, dim: s.dim}, nil
}

// ascending reports whether the ends of the parts never decrease, and the last end is the end of
// the whole.
func ascending(ends []byte, whole int64) bool {
	last := uint32(0)
	for i := 0; i < len(ends); i += 4 {
		end := binary.LittleEndian.Uint32(ends[i:])
		if end < last {
			return false
		}
		last = end
	}
	return int64(last) == whole
}

// padding returns how many zeros follow n bytes up to a multiple of 4.
func padding(n int) int { return -n & 3 }

// Len returns the number of documents.
func (ix *Index) Len() int { return ix.docs }

// Vectors reports whether the index has vectors that this program can use. If not,
// [Index.Rank] ranks only by words until the next build of the index.
func (ix *Index) Vectors() bool { return ix.dim > 0 }

// term returns the text of term i.
func (s *segment) term(i int) []byte {
	from, to := part(s.textEnds, i)
	return s.texts[from:to]
}

// list returns the postings of term i.
func (s *segment) list(i int) []byte {
	from, to := part(s.listEnds, i)
	return s.lists[postingSize*from : postingSize*to]
}

// part returns where part i of a whole begins and ends.
func part(ends []byte, i int) (from, to int) {
	if i > 0 {
		from = int(binary.LittleEndian.Uint32(ends[4*(i-1):]))
	}
	return from, int(binary.LittleEndian.Uint32(ends[4*i:]))
}

// find returns the number of the term with this text.
func (s *segment) find(text string) (i int, ok bool) {
	return sort.Find(s.terms, func(i int) int { return bytes.Compare([]byte(text), s.term(i)) })
}

// firstPosting reads the first posting of a list. In damaged bytes, the document may be out of
// range, and an invalid weight counts as 0.
func firstPosting(list []byte) (doc int, weight float64) {
	weight = float64(math.Float32frombits(binary.LittleEndian.Uint32(list[4:8])))
	if !(weight >= 0 && weight <= saturation+1) {
		weight = 0
	}
	return int(binary.LittleEndian.Uint32(list)), weight
}
