//go:build !amd64

package search

// multipliesWide is false: there is no assembly for this processor.
const multipliesWide = false

// products puts into dots the products of v and of as many documents, whose numbers are int8 and stand in b
// one document after the other: of each the sum of the products with v's numbers.
func (v *vector) products(dots []int32, b []byte) { v.paired(dots, b) }
