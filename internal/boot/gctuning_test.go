package boot

import (
	"runtime/debug"
	"testing"
)

// While the gateway starts, it collects garbage less often, unless the operator has set GOGC.
func TestTuneGC(t *testing.T) {
	set := debug.SetGCPercent
	defer set(set(usualGarbage))
	for _, tt := range []struct{ before, during int }{{usualGarbage, startGarbage}, {50, 50}, {-1, -1}} {
		set(tt.before)
		collect := TuneGC()
		during := set(tt.during)
		collect()
		if after := set(usualGarbage); during != tt.during || after != tt.before {
			t.Errorf("before %d: GC percent during the start is %d and after it %d; want %d "+
				"during the start", tt.before, during, after, tt.during)
		}
	}
}
