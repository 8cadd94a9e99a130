package observe

import (
	"bytes"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// memoryEvery is how often a function says how much memory it has used. The figure is the most since
// its start, so none is missed in between.
const memoryEvery = time.Minute

// A memory says how much of it this process has used.
type memory struct {
	read func() ([]byte, error) // as /proc/self/status is; nil: it is not counted
	said atomic.Int64           // when it was last asked, in Unix nanoseconds; 0: never
}

// due returns the most memory that the process has had resident, in MB; false if it was said of late
// or is not known.
func (m *memory) due(now time.Time) (float64, bool) {
	if m.read == nil {
		return 0, false
	}
	last := m.said.Load()
	if last != 0 && now.UnixNano()-last < int64(memoryEvery) || !m.said.CompareAndSwap(last, now.UnixNano()) {
		return 0, false
	}
	status, err := m.read()
	if err != nil {
		return 0, false // as on systems without it
	}
	return highWater(status)
}

// WatchMemory has the meter count the memory of this process, before anything else is counted.
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
