package boot

import (
	"runtime/debug"
	"sync"
)

// The limits of garbage on the heap, in percent of the live data: Go's default, and the limit
// during a start. A start produces hardly any garbage, so a collection would waste a sixth of the
// start's processor time.
const (
	usualGarbage = 100
	startGarbage = 400
)

// TuneGC makes Go collect garbage less often until the caller calls collect, unless GOGC is set. A
// memory limit still applies during that time.
func TuneGC() (collect func()) {
	if before := debug.SetGCPercent(startGarbage); before != usualGarbage {
		debug.SetGCPercent(before)
		return func() {}
	}
	return sync.OnceFunc(func() { debug.SetGCPercent(usualGarbage) })
}
