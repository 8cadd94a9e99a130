package capacity

import (
	"bytes"
	"math"
	"os"
	"runtime/debug"
	"strconv"
)

const (
	// requestCost is the memory of a request in flight, measured under load: 70 to 80 KB for the
	// stacks and buffers of its two connections. bodyCost is the number of copies of a request's
	// body that are in memory at the same time.
	requestCost = 80 << 10
	bodyCost    = 3

	// usualBudget is the maximum memory of all requests if the operator does not set GOMEMLIMIT.
	usualBudget = 128 << 20
	leastBudget = 16 << 20

	// usualDescriptors is the limit for a process whose own limit is unknown.
	usualDescriptors = 8192
)

// Limits are the resources that a [Gate] may use.
type Limits struct {
	Memory      int64 // bytes of all requests in flight
	Descriptors int   // maximum number that the process can have open, for all purposes
}

// Detect returns the limits of this process. Requests get a quarter of GOMEMLIMIT. Without
// GOMEMLIMIT they get an eighth of the memory of the container or machine, and at most 128 MiB.
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

// machineMemory returns the smaller of the container's memory limit and the machine's memory, in
// bytes. It returns 0 if both are unknown.
func machineMemory(read func(string) ([]byte, error)) int64 {
	least := int64(0)
	note := func(n int64) {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		data, _ := read(path) // the file exists on some systems only
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
