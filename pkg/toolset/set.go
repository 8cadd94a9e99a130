package toolset

import (
	"iter"
	"math/bits"
	"slices"
)

// A set is a set of tool numbers, all of one universe.
type set []uint64

func newSet(n int) set { return make(set, (n+63)/64) }

func (s set) add(i int)    { s[i/64] |= 1 << (i % 64) }
func (s set) remove(i int) { s[i/64] &^= 1 << (i % 64) }

func (s set) has(i int) bool { return i >= 0 && i/64 < len(s) && s[i/64]&(1<<(i%64)) != 0 }

func (s set) clone() set { return slices.Clone(s) }

// unite adds every member of other.
func (s set) unite(other set) {
	for i, w := range other {
		s[i] |= w
	}
}

// keep removes what is not in other.
func (s set) keep(other set) {
	for i, w := range other {
		s[i] &= w
	}
}

func (s set) meets(other set) bool {
	for i, w := range other {
		if s[i]&w != 0 {
			return true
		}
	}
	return false
}

func (s set) len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// all yields the members in ascending order.
func (s set) all() iter.Seq[int] {
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
