package boot

import (
	"runtime/debug"
	"sync"
)

// How much garbage may lie beside what is in use, in percent: as Go has it, and during a start, of which hardly
// anything is garbage. To look for it takes a sixth of its processor time.
const (
	usualGarbage = 100
	startGarbage = 400
)

// TuneGC has garbage collected less often until the returned function is called, unless somebody
// has said how often. A limit of memory holds meanwhile.
func TuneGC() (collect func()) {
	if before := debug.SetGCPercent(startGarbage); before != usualGarbage {
		debug.SetGCPercent(before)
		return func() {}
	}
	return sync.OnceFunc(func() { debug.SetGCPercent(usualGarbage) })
}
