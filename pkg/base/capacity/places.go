package capacity

// A Place is one occupied place of a resource.
type Place struct {
	Holder string // user of the place
	Size   int    // its amount of the resource
	Busy   bool   // the holder cannot give it up now
	Last   int64  // time of the last use, in any unit that grows with time
}

// Yield returns the index of the place that must be given up so that the argument holder can get a
// place of this size. It returns -1 if holder gets nothing, because the other holders have less
// than it would have, or all their places are busy.
//
// The place belongs to the heaviest holder that can give a place up, and is its least recently used
// place. If holder and another holder are the heaviest, holder gives up its own place. Otherwise
// the two would take places from each other again and again.
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

// yieldsBefore reports whether a must be given up before b.
func yieldsBefore(a, b Place, weight map[string]int, holder string) bool {
	switch wa, wb := weight[a.Holder], weight[b.Holder]; {
	case wa != wb:
		return wa > wb
	case (a.Holder == holder) != (b.Holder == holder):
		return a.Holder == holder
	}
	return a.Last < b.Last
}
