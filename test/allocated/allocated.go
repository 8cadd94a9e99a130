// Package allocated measures how much memory a piece of code allocates, for tests of a limit.
//
// The memory of a process depends on the machine and its load, but the sum of all allocations does
// not. The sum is never below the peak, so a limit on the sum also limits the peak.
package allocated

import "runtime"

// By returns how many bytes do allocates. It takes the least of three runs, because the first run
// may fill caches, and other goroutines may allocate at the same time.
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
