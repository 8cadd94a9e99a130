package search

import (
	"math/rand/v2"
	"testing"
)

// The product is that of a plain loop, for every length and for the greatest numbers.
func TestProduct(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for round := range 5000 {
		n := round % 300
		codes, b := make([]int8, n), make([]byte, n)
		for i := range n {
			codes[i], b[i] = int8(r.IntN(255)-127), byte(r.IntN(256))
			if round%3 == 0 {
				codes[i], b[i] = int8(127-254*(round%2)), byte(127+round%2)
			}
		}
		want := 0
		for i, c := range codes {
			want += int(c) * int(int8(b[i]))
		}
		for _, wide := range []bool{false, multipliesWide} {
			v := vectorFor(codes, wide)
			if got := v.product(b); got != want {
				t.Fatalf("wide %v: %v · %v = %d, want %d", wide, codes, b, got, want)
			}
		}
	}
}
