package boot

import (
	"runtime/debug"
	"sync"
)

// The garbage that the heap may hold, in percent of the live data: Go's default, and during a
// start, which produces hardly any garbage. Collection costs a sixth of the start's processor time.
const (
	usualGarbage = 100
	startGarbage = 400
)

// TuneGC makes Go collect garbage less often until the caller calls collect, unless GOGC is set. A
// memory limit stays in force meanwhile.
func TuneGC() (collect func()) {
	if before := debug.SetGCPercent(startGarbage); before != usualGarbage {
		debug.SetGCPercent(before)
		return func() {}
	}
	return sync.OnceFunc(func() { debug.SetGCPercent(usualGarbage) })
}
