package observe

import (
	"testing"
	"time"
)

func TestMemoryIsCountedOnceAMinute(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := NewMeter("portcullis", "mcp", func() time.Time { return now })
	m.memory.read = func() ([]byte, error) {
		return []byte("Name:\tbootstrap\nVmPeak:\t 1240000 kB\nVmHWM:\t   34560 kB\nVmRSS:\t   30000 kB\n"), nil
	}
	counted := func() (mb float64, ok bool) {
		for _, a := range m.Request(&Counts{}, time.Millisecond, false) {
			if a.Key == "MemoryUsed" {
				mb, ok = a.Value.Float64(), true
			}
		}
		return mb, ok
	}
	if mb, ok := counted(); mb != 33.7 || !ok {
		t.Errorf("memory of the first request = %v, %t", mb, ok)
	}
	if _, ok := counted(); ok {
		t.Error("a second request reports the memory within a minute")
	}
	if now = now.Add(time.Minute); true {
		if _, ok := counted(); !ok {
			t.Error("no request reports the memory after a minute")
		}
	}
	m.WatchMemory()
	now = now.Add(time.Minute)
	if mb, ok := counted(); ok && mb < 1 {
		t.Errorf("this process has used %v MB", mb)
	}
	if mb, ok := highWater([]byte("VmRSS: 1 kB")); ok {
		t.Errorf("memory of a status without VmHWM = %v, want none", mb)
	}
}

func TestSpend(t *testing.T) {
	m := NewMeter("portcullis", "mcp", nil)
	c := &Counts{}
	c.spend(Open, 1500*time.Microsecond)
	c.spend(Record, time.Millisecond)
	c.spend(Upstream, time.Second)
	got := map[string]float64{}
	for _, a := range m.Request(c, time.Second, false) {
		if a.Key == "store_ms" || a.Key == "search_ms" {
			got[a.Key] = a.Value.Float64()
		}
	}
	if len(got) != 1 || got["store_ms"] != 2.5 {
		t.Errorf("times in the line = %v", got)
	}
	if countsOf(t.Context()) != nil || countsOf(m.Begin(t.Context(), c)) != c {
		t.Error("countsOf has counts outside a request, or not the counts of the request")
	}
	if n := testing.AllocsPerRun(100, func() { c.spend(Search, time.Millisecond) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
