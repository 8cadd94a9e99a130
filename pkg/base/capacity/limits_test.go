package capacity

import (
	"io/fs"
	"math"
	"runtime/debug"
	"testing"
)

func TestMachineMemory(t *testing.T) {
	const meminfo = "MemTotal:       16384000 kB\nMemFree:  1 kB\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"a machine":                           {map[string]string{"/proc/meminfo": meminfo}, 16384000 << 10},
		"a container":                         {map[string]string{"/proc/meminfo": meminfo, "/sys/fs/cgroup/memory.max": "536870912\n"}, 512 << 20},
		"an unbounded container":              {map[string]string{"/proc/meminfo": meminfo, "/sys/fs/cgroup/memory.max": "max\n"}, 16384000 << 10},
		"an older container":                  {map[string]string{"/sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n"}, 256 << 20},
		"an older system without a container": {map[string]string{"/proc/meminfo": meminfo, "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 16384000 << 10},
		"another system":                      {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			read := func(path string) ([]byte, error) {
				if data, ok := test.files[path]; ok {
					return []byte(data), nil
				}
				return nil, fs.ErrNotExist
			}
			if got := machineMemory(read); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}

func TestDetect(t *testing.T) {
	usual := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(usual)
	if l := Detect(); l.Memory < leastBudget || l.Memory > usualBudget || l.Descriptors < 1 {
		t.Errorf("without GOMEMLIMIT: %+v", l)
	}
	debug.SetMemoryLimit(4 << 30)
	if l := Detect(); l.Memory != 1<<30 {
		t.Errorf("with 4 GiB: %+v", l)
	}
	debug.SetMemoryLimit(1 << 20)
	if l := Detect(); l.Memory != leastBudget {
		t.Errorf("with 1 MiB: %+v", l)
	}
	if g := NewGate(Limits{Memory: 128 << 20, Descriptors: 256}, nil); g.maxConns != 128 || g.maxRequests != 64 || g.maxStreams != 32 {
		t.Errorf("with 256 descriptors: %d connections, %d requests, %d streams", g.maxConns, g.maxRequests, g.maxStreams)
	}
}
