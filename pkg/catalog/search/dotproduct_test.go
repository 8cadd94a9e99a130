package search

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The products equal the results of a plain loop, for every length, any number of documents and the
// largest numbers.
func TestProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for round := range 5000 {
		n, docs := round%300, round/7%4+round%2
		codes, b := make([]int8, n), make([]byte, n*docs)
		want := make([]int32, docs)
		for i := range n {
			codes[i] = int8(r.IntN(255) - 127)
			if round%3 == 0 {
				codes[i] = int8(127 - 254*(round%2))
			}
			for d := range docs {
				x := byte(r.IntN(256))
				if round%3 == 0 {
					x = byte(127 + round%2)
				}
				b[d*n+i] = x
				want[d] += int32(codes[i]) * int32(int8(x))
			}
		}
		for _, wide := range []bool{false, multipliesWide} {
			v, got := vectorFor(codes, wide), []int32{1, 2, 3, 4, 5}
			rest := got[docs]
			if v.products(got[:docs], b); !slices.Equal(got[:docs], want) || got[docs] != rest {
				t.Fatalf("wide %v: %v · %v = %d, want %d", wide, codes, b, got, want)
			}
		}
	}
}
