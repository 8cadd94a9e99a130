// Package embedding computes vectors of texts. Texts with the same meaning in different words have
// similar vectors. No model runs: a text's vector is the sum of the vectors of its words. A word's
// vector is the sum of the rows of its pieces in a table.
//
// The program in maketable distills the table offline from a sentence encoder. The table is built
// into the binary and read in place: opening it parses nothing and allocates nothing. Only the
// memory pages that a query reads are loaded.
//
// The file, little endian:
//
//	 0  8 bytes  "PIECEVEC"
//	 8  u32 × 5  version 1, numbers per row, bits per number (4), pieces,
//	             length of the piece texts
//	28  u32      offset of each piece's text, and of the end (pieces + 1)
//	    bytes    texts in bytewise order, joined, zeros up to a multiple of 4;
//	             a piece that continues a word starts with "##"
//	    f32      scale of each row
//	    bytes    rows: 4 bits a number, low half first, number = code − 8
package embedding

import (
	_ "embed" // the table
	"errors"
	"fmt"
	"math"
	"sort"
	"strings"
)

//go:embed table.bin
var builtin string

// errFormat means that this program cannot read the bytes as a table.
var errFormat = errors.New("not a token table of this version")

const (
	magic      = "PIECEVEC"
	version    = 1
	headerSize = 28
	maxDim     = 4096
	mark       = "##" // begins a piece that continues a word
)

// A Table holds a row of numbers for each word piece. The zero Table has no words. A Table is safe
// for concurrent use.
type Table struct {
	dim, count int
	firsts     int    // index of the first piece that begins a word
	offsets    string // u32 × (count+1)
	texts      string
	scales     string // f32 × count
	rows       string
}

// Default returns the built-in table.
func Default() Table {
	t, _ := open(builtin) // a test checks that open succeeds; with the zero Table, search ranks only by words
	return t
}

// open reads a table in place. It checks only the head and the sizes. The methods of the Table do
// not panic, even if the rest of data is random.
func open(data string) (Table, error) {
	if len(data) < headerSize || data[:len(magic)] != magic {
		return Table{}, fmt.Errorf("%w: no head", errFormat)
	}
	if v := u32(data, 8); v != version {
		return Table{}, fmt.Errorf("%w: version %d, want %d", errFormat, v, version)
	}
	dim, bits, count, size := int64(u32(data, 12)), int64(u32(data, 16)), int64(u32(data, 20)), int64(u32(data, 24))
	if bits != 4 || dim == 0 || dim > maxDim || dim%2 != 0 {
		return Table{}, fmt.Errorf("%w: %d numbers of %d bits a row", errFormat, dim, bits)
	}
	texts := headerSize + 4*(count+1)
	scales := texts + (size+3)/4*4
	rows := scales + 4*count
	if end := rows + count*dim/2; end != int64(len(data)) {
		return Table{}, fmt.Errorf("%w: %d bytes, want %d", errFormat, len(data), end)
	}
	t := Table{
		dim: int(dim), count: int(count),
		offsets: data[headerSize:texts],
		texts:   data[texts : texts+size],
		scales:  data[scales:rows],
		rows:    data[rows:],
	}
	t.firsts = sort.Search(t.count, func(i int) bool { return t.text(i) >= mark+"\xff" })
	return t, nil
}

// Dim returns how many numbers a vector has, or 0 for the zero Table.
func (t *Table) Dim() int { return t.dim }

// text returns the text of piece i, or "" if its offsets are invalid.
func (t *Table) text(i int) string {
	from, to := u32(t.offsets, 4*i), u32(t.offsets, 4*i+4)
	if from > to || int64(to) > int64(len(t.texts)) {
		return ""
	}
	return t.texts[from:to]
}

// Word returns the word that consists of letter and rest, if the whole word is one piece. It
// allocates nothing.
func (t *Table) Word(letter byte, rest string) (word string, ok bool) {
	i, ok := sort.Find(t.count-t.firsts, func(i int) int {
		text := t.text(t.firsts + i)
		switch {
		case text == "" || letter > text[0]:
			return 1
		case letter < text[0]:
			return -1
		}
		return strings.Compare(rest, text[1:])
	})
	if !ok {
		return "", false
	}
	return t.text(t.firsts + i), true
}

// Words calls yield with every word that is one piece and begins with letter, in bytewise order.
func (t *Table) Words(letter byte, yield func(word string)) {
	from := sort.Search(t.count-t.firsts, func(i int) bool { return t.text(t.firsts+i) >= string(rune(letter)) })
	for i := t.firsts + from; i < t.count && strings.IndexByte(t.text(i), letter) == 0; i++ {
		yield(t.text(i))
	}
}

func (t *Table) scale(i int) float64 {
	return float64(math.Float32frombits(u32(t.scales, 4*i)))
}

func u32(s string, i int) uint32 {
	_ = s[i+3]
	return uint32(s[i]) | uint32(s[i+1])<<8 | uint32(s[i+2])<<16 | uint32(s[i+3])<<24
}
