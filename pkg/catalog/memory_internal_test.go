package catalog

import "testing"

// The peaks of docs/scale.md stay below the need. The default of 256 MB is enough for 10,000 tools,
// and the default of 1,024 MB for a sync of 100,000 tools.
func TestMemoryNeeded(t *testing.T) {
	for name, tt := range map[string]struct {
		needed           func(size int) int
		size, peak, most int
	}{
		"527 tools":           {MemoryNeeded, 1 << 20, 27, 64},
		"10,000 tools":        {MemoryNeeded, 20 << 20, 64, 128},
		"100,000 tools":       {MemoryNeeded, 206 << 20, 401, 520},
		"sync, 527 tools":     {SyncMemoryNeeded, 1 << 20, 40, 64},
		"sync, 10,000 tools":  {SyncMemoryNeeded, 20 << 20, 117, 128},
		"sync, 100,000 tools": {SyncMemoryNeeded, 206 << 20, 622, 1024},
	} {
		if got := tt.needed(tt.size); got <= tt.peak || got > tt.most {
			t.Errorf("%s: %d MB, want over %d and at most %d", name, got, tt.peak, tt.most)
		}
	}
}
