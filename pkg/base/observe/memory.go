package observe

import (
	"bytes"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// memoryEvery is how often a function reports its memory use. The value is the maximum since the
// start of the function, so no peak between two reports is lost.
const memoryEvery = time.Minute

// A memory reports how much memory this process has used.
type memory struct {
	read func() ([]byte, error) // reads /proc/self/status; nil: memory is not counted
	said atomic.Int64           // time of the last report, in Unix nanoseconds; 0: never
}

// nextPeak returns the most memory that the process has had resident, in MB. It returns false if
// the last report is recent or the value is unknown.
func (m *memory) nextPeak(now time.Time) (float64, bool) {
	if m.read == nil {
		return 0, false
	}
	last := m.said.Load()
	if last != 0 && now.UnixNano()-last < int64(memoryEvery) || !m.said.CompareAndSwap(last, now.UnixNano()) {
		return 0, false
	}
	status, err := m.read()
	if err != nil {
		return 0, false // systems without /proc/self/status
	}
	return highWater(status)
}

// WatchMemory makes the meter count the memory of this process. Call it before any other count.
func (m *Meter) WatchMemory() {
	if m != nil {
		m.memory.read = func() ([]byte, error) { return os.ReadFile("/proc/self/status") }
	}
}

// highWater returns VmHWM of /proc/self/status, in MB.
func highWater(status []byte) (float64, bool) {
	_, rest, found := bytes.Cut(status, []byte("\nVmHWM:"))
	line, _, _ := bytes.Cut(rest, []byte("kB"))
	kb, err := strconv.ParseFloat(string(bytes.TrimSpace(line)), 64)
	if !found || err != nil {
		return 0, false
	}
	return float64(int(kb/1024*10)) / 10, true
}
