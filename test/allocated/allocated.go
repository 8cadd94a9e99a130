// Package allocated measures how much memory a piece of code allocates, for tests that hold a bound.
//
// The sum of all allocations is the same on every machine and at every load, which the memory of the
// process is not. It is never below the peak, so a bound on it is a bound on the peak.
package allocated

import "runtime"

// By returns how many bytes do allocates, in all goroutines. It takes the least of three runs: the
// first one may fill caches, and other goroutines may allocate beside it.
func By(do func()) uint64 {
	least := ^uint64(0)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}
