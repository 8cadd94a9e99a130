package boot

import (
	"runtime/debug"
	"testing"
)

// A start collects garbage less often, unless the operator has set how often.
func TestEaseCollector(t *testing.T) {
	set := debug.SetGCPercent
	defer set(set(usualGarbage))
	for _, tt := range []struct{ before, during int }{{usualGarbage, startGarbage}, {50, 50}, {-1, -1}} {
		set(tt.before)
		collect := TuneGC()
		during := set(tt.during)
		collect()
		if after := set(usualGarbage); during != tt.during || after != tt.before {
			t.Errorf("of %d it makes %d, and then %d; want %d", tt.before, during, after, tt.during)
		}
	}
}
