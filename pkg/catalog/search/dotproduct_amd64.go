package search

import "golang.org/x/sys/cpu"

// multipliesWide reports whether the processor multiplies sixteen numbers at once.
var multipliesWide = cpu.X86.HasAVX2

// products writes the dot product of v and each document to dots. b contains the numbers of the
// documents as int8, one document after the other.
func (v *vector) products(dots []int32, b []byte) {
	if v.wide == nil || len(dots) == 0 {
		v.pairProducts(dots, b)
		return
	}
	dim, n := len(v.codes), len(v.wide)
	b = b[:dim*len(dots)]
	if n > 0 {
		productsWide(&v.wide[0], &b[0], n, dim, &dots[0], len(dots))
	} else {
		clear(dots)
	}
	for i := n; i < dim; i++ {
		for d := range dots {
			dots[d] += int32(v.codes[i]) * int32(int8(b[d*dim+i]))
		}
	}
}

// productsWide writes one sum of n products to dots for each row. The sum of row i multiplies the
// numbers at a with the numbers at b + i·stride. n is a multiple of 16, and n and rows are above 0.
//
//go:noescape
func productsWide(a *int16, b *byte, n, stride int, dots *int32, rows int)
