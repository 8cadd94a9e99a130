package usage

import "math"

// Latencies are counted in bins whose bounds grow by the fourth root of two, from 1 ms to about two
// minutes. A percentile is the middle of its bin, so it is off by at most [LatencyError].
const (
	bins        = 70
	binsToTwice = 4
)

// LatencyError is how far a percentile of a [Histogram] may be off, relative to the true one,
// between one millisecond and two minutes: the eighth root of two, less one.
const LatencyError = 0.0906

// A Histogram counts durations of requests. The zero value is empty.
type Histogram [bins]uint32

// Observe counts a request that took ms milliseconds.
func (h *Histogram) Observe(ms float64) { h[binOf(ms)]++ }

func binOf(ms float64) int {
	if !(ms > 1) { // NaN too
		return 0
	}
	return int(min(math.Ceil(binsToTwice*math.Log2(ms)), bins-1))
}

// Add adds other to h.
func (h *Histogram) Add(other *Histogram) {
	for i, n := range other {
		h[i] += n
	}
}

// Percentile returns the longest duration of the fastest p of all requests, in milliseconds, as
// exact as the bins; 0 if there were none.
func (h *Histogram) Percentile(p float64) float64 {
	var all uint64
	for _, n := range h {
		all += uint64(n)
	}
	if all == 0 {
		return 0
	}
	rank := max(uint64(math.Ceil(p*float64(all))), 1)
	for i, n := range h {
		if rank <= uint64(n) {
			return math.Exp2((float64(i) - 0.5) / binsToTwice)
		}
		rank -= uint64(n)
	}
	return 0 // not reached: rank is at most all
}
