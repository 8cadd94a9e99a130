package boot

import (
	"io"
	"runtime/debug"
	"testing"
)

// A start collects garbage less often, and only where nobody has said how often.
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

// Whatever a function answers with, its start is over when it begins to, or fails.
func TestStartEndsEase(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(usualGarbage))
	env := map[string]string{"PORTCULLIS_AUTH": "none", "PORTCULLIS_STREAMING": "url"}
	if _, err := start(t.Context(), "mcp", func(key string) string { return env[key] }, io.Discard); err == nil {
		t.Error("it starts without a bucket")
	}
	if after := debug.SetGCPercent(usualGarbage); after != usualGarbage {
		t.Errorf("garbage is collected at %d percent, want %d", after, usualGarbage)
	}
}
