package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// A Held is what a process holds.
type Held struct {
	Descriptors, Children int
	Resident, Peak        float64 // MB of memory: now, and at its highest
}

// HeldBy returns what a process holds, as Linux tells it.
func HeldBy(t testing.TB, pid int) (h Held) {
	t.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		Missing(t, fmt.Sprintf("what a process holds is told by /proc alone: %v", err))
	}
	h.Descriptors = len(fds)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.OK(t, err)
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		into := map[string]*float64{"VmHWM": &h.Peak, "VmRSS": &h.Resident}[name]
		if into != nil {
			kilobytes, err := strconv.Atoi(strings.Fields(value)[0])
			require.OK(t, err)
			*into = float64(kilobytes) / 1024
		}
	}
	processes, err := filepath.Glob("/proc/[0-9]*/stat")
	require.OK(t, err)
	for _, path := range processes {
		stat, err := os.ReadFile(path) // of one that has ended since: not there
		_, rest, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(rest); err == nil && fields[1] == strconv.Itoa(pid) {
			h.Children++
		}
	}
	return h
}

// ForgetPeak makes the Peak of a process count from now on.
func ForgetPeak(t testing.TB, pid int) {
	t.Helper()
	require.OK(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0))
}

// ticks are how many of a second Linux counts processor time in.
const ticks = 100

// CPU returns the processor time that a process has used.
func CPU(t testing.TB, pid int) time.Duration {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.OK(t, err)
	_, rest, _ := strings.Cut(string(data), ") ") // behind the name
	used := 0
	for _, field := range strings.Fields(rest)[11:13] { // utime, stime
		n, err := strconv.Atoi(field)
		require.OK(t, err)
		used += n
	}
	return time.Duration(used) * time.Second / ticks
}
