package capacity

// A Place is one place that is taken.
type Place struct {
	Holder string // who has it
	Size   int    // how much of the resource it is
	Busy   bool   // it cannot be given back now
	Last   int64  // when it was used last, in any unit that grows with time
}

// Yield returns the index of the place that is given back so that holder can have size more. It
// returns -1 if holder gets nothing: the other holders have less than holder would have, or all
// their places are busy.
//
// The place is one of the heaviest holder that has one to give, and the one used least lately.
// Between equal holders it is a place of the one who asks, so that two of them do not take turns.
func Yield(places []Place, holder string, size int) int {
	weight := map[string]int{holder: size}
	for _, p := range places {
		weight[p.Holder] += p.Size
	}
	found := -1
	for i, p := range places {
		if p.Busy || p.Size == 0 || weight[p.Holder] < weight[holder] {
			continue
		}
		if found < 0 || yieldsBefore(p, places[found], weight, holder) {
			found = i
		}
	}
	return found
}

// yieldsBefore reports whether a is given back rather than b.
func yieldsBefore(a, b Place, weight map[string]int, holder string) bool {
	switch wa, wb := weight[a.Holder], weight[b.Holder]; {
	case wa != wb:
		return wa > wb
	case (a.Holder == holder) != (b.Holder == holder):
		return a.Holder == holder
	}
	return a.Last < b.Last
}
