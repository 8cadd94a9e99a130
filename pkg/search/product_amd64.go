package search

import "golang.org/x/sys/cpu"

// multipliesWide reports whether the processor multiplies sixteen numbers at once.
var multipliesWide = cpu.X86.HasAVX2

// atOnce is product by sixteen numbers at once.
func (v *vector) atOnce(b []byte) int {
	b = b[:len(v.codes)]
	sum := 0
	if n := len(v.wide); n > 0 {
		sum = int(productWide(&v.wide[0], &b[0], n))
	}
	for i := len(v.wide); i < len(b); i++ {
		sum += int(v.codes[i]) * int(int8(b[i]))
	}
	return sum
}

// productWide returns the sum of n products of the numbers at a and b. n is a multiple of 16, above 0.
//
//go:noescape
func productWide(a *int16, b *byte, n int) int32
