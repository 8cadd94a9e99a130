package review

import "math"

// A differ finds the common parts of two sequences, by the algorithm of Myers in linear space.
// Elements that are not marked as deleted or inserted are the same on both sides, in the same
// order.
//
// The work is bounded: if two parts differ by more than limit, the search ends at the point that
// got furthest, as in GNU diff. The result may then be longer than necessary, but is never wrong.
// It is always the same, which a time limit would not guarantee.
type differ struct {
	a, b              []int32
	deleted, inserted []bool  // by index in a and b
	fd, bd            []int32 // how far each diagonal got, forward and backward, relative to middle
	middle            int32   // index in fd and bd of the first diagonal
	limit             int32
}

// work is the approximate limit of comparisons of one diff.
const work = 2 << 20

// diff returns which elements of a are deleted and which of b are inserted. Every element is below
// kinds.
func diff(a, b []int32, kinds int) (deleted, inserted []bool) {
	deleted, inserted = make([]bool, len(a)), make([]bool, len(b))
	// Elements that the other side lacks match nothing, so the search skips them.
	x, atA := shared(a, b, kinds, deleted)
	y, atB := shared(b, a, kinds, inserted)
	n := len(x) + len(y)
	d := &differ{a: x, b: y, deleted: make([]bool, len(x)), inserted: make([]bool, len(y)), limit: int32(max(8, work/(n+1)))}
	d.middle = min(d.limit, int32(n)) + 2 // each step of a search adds one diagonal on either side
	d.fd, d.bd = make([]int32, 2*d.middle+1), make([]int32, 2*d.middle+1)
	d.compare(0, int32(len(x)), 0, int32(len(y)))
	for i, at := range atA {
		deleted[at] = d.deleted[i]
	}
	for i, at := range atB {
		inserted[at] = d.inserted[i]
	}
	return deleted, inserted
}

// shared returns the elements of a that b also has, with their indexes, and marks the others.
func shared(a, b []int32, kinds int, marked []bool) (list, at []int32) {
	has := make([]bool, kinds)
	for _, e := range b {
		has[e] = true
	}
	n := 0
	for i, e := range a {
		if marked[i] = !has[e]; has[e] {
			n++
		}
	}
	list, at = make([]int32, 0, n), make([]int32, 0, n)
	for i, e := range a {
		if has[e] {
			list, at = append(list, e), append(at, int32(i))
		}
	}
	return list, at
}

// compare marks the differences between a[ax:ay] and b[bx:by]. It calls itself only for the first
// part of a split. If limit ends a search this is the small part, so the stack stays small.
func (d *differ) compare(ax, ay, bx, by int32) {
	for {
		for ax < ay && bx < by && d.a[ax] == d.b[bx] {
			ax, bx = ax+1, bx+1
		}
		for ax < ay && bx < by && d.a[ay-1] == d.b[by-1] {
			ay, by = ay-1, by-1
		}
		if ax == ay || bx == by {
			break
		}
		x, y := d.split(ax, ay, bx, by)
		d.compare(ax, x, bx, y)
		ax, bx = x, y
	}
	for i := ax; i < ay; i++ {
		d.deleted[i] = true
	}
	for i := bx; i < by; i++ {
		d.inserted[i] = true
	}
}

// A front is the range of diagonals that one of the two searches has reached.
type front struct{ min, max int32 }

// grow adds one more diagonal on either side, if there is one, and sets it to the argument none.
func (f *front) grow(reached []int32, origin, least, most, none int32) {
	if f.min > least {
		f.min--
		reached[origin+f.min-1] = none
	} else {
		f.min++
	}
	if f.max < most {
		f.max++
		reached[origin+f.max+1] = none
	} else {
		f.max--
	}
}

func (f front) has(k int32) bool { return f.min <= k && k <= f.max }

// split returns a point on a shortest path from (ax, bx) to (ay, by). Beyond limit it returns a
// point on the shortest path that it found. Diagonal k has the points with x-y = k.
func (d *differ) split(ax, ay, bx, by int32) (x, y int32) {
	least, most := ax-by, ay-bx
	start, end := ax-bx, ay-by
	odd := (start-end)&1 != 0
	forward, backward := front{start, start}, front{end, end}
	fd, bd := d.fd, d.bd
	fo, bo := d.middle-start, d.middle-end // the indexes of diagonal 0
	fd[fo+start], bd[bo+end] = ax, ay
	for cost := int32(1); ; cost++ {
		forward.grow(fd, fo, least, most, -1)
		for k := forward.max; k >= forward.min; k -= 2 {
			x := max(fd[fo+k-1]+1, fd[fo+k+1])
			for x < ay && x-k < by && d.a[x] == d.b[x-k] {
				x++
			}
			if fd[fo+k] = x; odd && backward.has(k) && bd[bo+k] <= x {
				return x, x - k
			}
		}
		backward.grow(bd, bo, least, most, math.MaxInt32)
		for k := backward.max; k >= backward.min; k -= 2 {
			x := min(bd[bo+k-1], bd[bo+k+1]-1)
			for ax < x && bx < x-k && d.a[x-1] == d.b[x-k-1] {
				x--
			}
			if bd[bo+k] = x; !odd && forward.has(k) && x <= fd[fo+k] {
				return x, x - k
			}
		}
		if cost >= d.limit {
			return d.furthest(forward, fo, ax, ay, bx, by)
		}
	}
}

// furthest returns the point of the forward search that is furthest from its start.
func (d *differ) furthest(f front, origin, ax, ay, bx, by int32) (x, y int32) {
	best := int32(-1)
	for k := f.max; k >= f.min; k -= 2 {
		at := min(d.fd[origin+k], ay)
		if at-k > by {
			at = by + k
		}
		if at >= ax && at-k >= bx && at+at-k > best {
			best, x, y = at+at-k, at, at-k
		}
	}
	return x, y
}
