//go:build !amd64

package search

// multipliesWide is false: there is no assembly for this processor.
const multipliesWide = false

// products writes the dot product of v and each document to dots. b contains the numbers of the
// documents as int8, one document after the other.
func (v *vector) products(dots []int32, b []byte) { v.pairProducts(dots, b) }
