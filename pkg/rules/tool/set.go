package tool

import (
	"iter"
	"math/bits"
	"slices"
)

// A Set is a set of tools by their numbers, which are their indexes in one catalog. The zero Set
// is empty.
type Set []uint64

// NewSet returns an empty Set for numbers below n.
func NewSet(n int) Set { return make(Set, (n+63)/64) }

// Add adds i to s.
func (s Set) Add(i int) { s[i/64] |= 1 << (i % 64) }

// Remove removes i from s.
func (s Set) Remove(i int) { s[i/64] &^= 1 << (i % 64) }

// AddAll adds the members of o to s.
func (s Set) AddAll(o Set) {
	for i, w := range o {
		s[i] |= w
	}
}

// Has reports whether i is in s, for any i.
func (s Set) Has(i int) bool { return uint(i)/64 < uint(len(s)) && s[i/64]&(1<<(i%64)) != 0 }

// Len returns the number of members.
func (s Set) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// All yields the members in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s {
			for ; w != 0; w &= w - 1 {
				if !yield(i*64 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// Intersect returns a new Set of the members that s and o share.
func (s Set) Intersect(o Set) Set {
	out := slices.Clone(s[:min(len(s), len(o))])
	for i := range out {
		out[i] &= o[i]
	}
	return out
}

// Without returns a new Set of the members of s that are not in o.
func (s Set) Without(o Set) Set {
	out := slices.Clone(s)
	for i := range min(len(s), len(o)) {
		out[i] &^= o[i]
	}
	return out
}

// Meets reports whether s and o share a member.
func (s Set) Meets(o Set) bool {
	for i := range min(len(s), len(o)) {
		if s[i]&o[i] != 0 {
			return true
		}
	}
	return false
}
