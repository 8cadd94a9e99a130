package embedding

import (
	"math"
	"sort"
)

// maxPieces is how many pieces a word may have. Callers cut words to 64 bytes. A longer word that
// needs more pieces counts as unknown.
const maxPieces = 64

// Add adds weight times the vector of word to sum, which has [Table.Dim] numbers. It reports
// whether the word has a vector, which requires that all its pieces are known. It allocates
// nothing.
//
// Add adds the numbers in a fixed order, in float64, and rounds each product before it adds the
// product. So every processor, and the program that makes the table, gets the same bits.
func (t *Table) Add(sum []float64, word string, weight float64) bool {
	var room [maxPieces]uint32
	pieces := t.Pieces(room[:0], word)
	t.AddPieces(sum, pieces, weight)
	return len(pieces) > 0 && len(sum) >= t.dim
}

// AddPieces works like [Table.Add], but for the word with these pieces.
func (t *Table) AddPieces(sum []float64, pieces []uint32, weight float64) {
	if len(sum) < t.dim {
		return
	}
	for _, i := range pieces {
		t.add(sum[:t.dim], int(i), weight*t.scale(int(i)))
	}
}

// add adds step times the numbers of row i to sum.
func (t *Table) add(sum []float64, i int, step float64) {
	var products [16]float64
	for code := range products {
		products[code] = step * float64(code-8)
	}
	row := t.rows[i*t.dim/2 : (i+1)*t.dim/2]
	for j := range len(row) {
		c, pair := row[j], sum[2*j:2*j+2:2*j+2]
		pair[0] += products[c&15]
		pair[1] += products[c>>4]
	}
}

// Pieces appends the numbers of the pieces of word: the longest known beginning, then the longest
// known continuation, and so on. It appends nothing if a part of the word is unknown.
func (t *Table) Pieces(out []uint32, word string) []uint32 {
	none := len(out)
	for from := 0; from < len(word); {
		lo, hi, skip := t.firsts, t.count, 0
		if from > 0 {
			lo, hi, skip = 0, t.firsts, len(mark)
		}
		i, size := t.longest(word[from:], lo, hi, skip)
		if size == 0 || len(out)-none == maxPieces {
			return out[:none]
		}
		out = append(out, uint32(i))
		from += size
	}
	return out
}

// longest compares s with the pieces lo…hi−1, each without its first skip bytes. It returns the
// number and length of the longest piece with which s begins, or length 0 if there is none.
func (t *Table) longest(s string, lo, hi, skip int) (piece, length int) {
	for len(s) > 0 {
		// The last piece that is not after s is the result, or it shares a longer beginning with s
		// than every piece before it. Then the result is not longer than that beginning.
		at := lo + sort.Search(hi-lo, func(i int) bool { return t.after(lo+i, skip) > s })
		if at == lo {
			return 0, 0
		}
		found := t.after(at-1, skip)
		n := common(found, s)
		if n == len(found) {
			return at - 1, n
		}
		s = s[:min(n, len(s)-1)]
	}
	return 0, 0
}

func (t *Table) after(i, skip int) string {
	text := t.text(i)
	return text[min(skip, len(text)):]
}

// common returns the length of the longest common beginning of a and b.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// Quantize writes sum to codes, with its largest absolute value as ±127, and returns the length of
// the vector codes. sum and codes have the same number of elements. The length is 0 if sum has no
// direction, because it has only zeros or a value that is not finite.
func Quantize(codes []int8, sum []float64) float32 {
	largest := 0.0
	for _, x := range sum {
		largest = max(largest, math.Abs(x)) // NaN if any is NaN
	}
	clear(codes)
	if !(largest > 0) || math.IsInf(largest, 0) {
		return 0
	}
	squares := 0
	for i, x := range sum {
		c := int8(math.RoundToEven(x / largest * 127))
		codes[i] = c
		squares += int(c) * int(c)
	}
	return float32(math.Sqrt(float64(squares)))
}
