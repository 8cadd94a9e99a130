package catalog

import "testing"

// The peaks of docs/scale.md stay below the need, and the default of 256 MB is enough for 10,000
// tools.
func TestMemoryNeeded(t *testing.T) {
	for name, tt := range map[string]struct{ size, peak, most int }{
		"527 tools":     {1 << 20, 27, 64},
		"10,000 tools":  {20 << 20, 64, 128},
		"100,000 tools": {206 << 20, 401, 520},
	} {
		if got := MemoryNeeded(tt.size); got <= tt.peak || got > tt.most {
			t.Errorf("%s: %d MB, want over %d and at most %d", name, got, tt.peak, tt.most)
		}
	}
}
