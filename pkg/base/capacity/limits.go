package capacity

import (
	"bytes"
	"math"
	"os"
	"runtime/debug"
	"strconv"
)

const (
	// requestCost is what a request in flight takes, as measured under load: 70 to 80 KB of stacks and
	// buffers of both its connections. bodyCost is how often its body is in memory at once.
	requestCost = 80 << 10
	bodyCost    = 3

	// usualBudget is the most that requests may take unless GOMEMLIMIT is set, which is how an operator asks
	// for more.
	usualBudget = 128 << 20
	leastBudget = 16 << 20

	// usualDescriptors is assumed where a process has no limit that it knows.
	usualDescriptors = 8192
)

// Limits are what a [Gate] may take.
type Limits struct {
	Memory      int64 // bytes of all requests in flight
	Descriptors int   // that the process can have open, for everything
}

// Detect returns the limits of this process. Requests get a quarter of GOMEMLIMIT; without it an eighth of the
// memory that the container or the machine has, and at most 128 MiB.
func Detect() Limits {
	l := Limits{Memory: usualBudget, Descriptors: descriptors()}
	if goLimit := debug.SetMemoryLimit(-1); goLimit < math.MaxInt64 {
		l.Memory = goLimit / 4
	} else if m := machineMemory(os.ReadFile); m > 0 {
		l.Memory = min(m/8, usualBudget)
	}
	l.Memory = max(l.Memory, leastBudget)
	return l
}

// machineMemory returns the bytes that the container may use, or that the machine has; 0: not known.
func machineMemory(read func(string) ([]byte, error)) int64 {
	least := int64(0)
	note := func(n int64) {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		data, _ := read(path) // it is there on some systems only
		n, _ := strconv.ParseInt(string(bytes.TrimSpace(data)), 10, 64)
		note(n)
	}
	data, _ := read("/proc/meminfo")
	if _, rest, ok := bytes.Cut(data, []byte("MemTotal:")); ok {
		kb, _, _ := bytes.Cut(rest, []byte("kB"))
		n, _ := strconv.ParseInt(string(bytes.TrimSpace(kb)), 10, 64)
		note(n << 10)
	}
	return least
}
