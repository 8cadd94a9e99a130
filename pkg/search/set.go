package search

import "math/bits"

// A Set is a set of document numbers below a fixed bound. The zero Set is
// empty and stays so. Copies share their members.
type Set struct {
	words []uint64
	bound int
}

// NewSet returns an empty Set for the numbers 0…n−1.
func NewSet(n int) Set {
	n = max(n, 0)
	return Set{words: make([]uint64, (n+63)/64), bound: n}
}

// Add puts i into the set. A number outside the bound is ignored.
func (s Set) Add(i int) {
	if i >= 0 && i < s.bound {
		s.words[i>>6] |= 1 << (i & 63)
	}
}

// Has reports whether i is in the set.
func (s Set) Has(i int) bool {
	return i >= 0 && i < s.bound && s.words[i>>6]&(1<<(i&63)) != 0
}

// Len returns the number of members.
func (s Set) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// union returns the members of both.
func (s Set) union(o Set) Set {
	if s.bound < o.bound {
		s, o = o, s
	}
	out := NewSet(s.bound)
	copy(out.words, s.words)
	for i, w := range o.words {
		out.words[i] |= w
	}
	return out
}

// below returns the members of s that are less than n.
func (s Set) below(n int) Set {
	if s.bound <= n {
		return s
	}
	out := NewSet(n)
	copy(out.words, s.words)
	if n&63 != 0 {
		out.words[n>>6] &= 1<<(n&63) - 1
	}
	return out
}
