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

// A Usage contains the resources that a process uses.
type Usage struct {
	Descriptors, Children int
	Resident, Peak        float64 // MB of memory, now, and at the peak
}

// UsageOf returns the resources that a process uses, from /proc.
func UsageOf(t testing.TB, pid int) (u Usage) {
	t.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		Missing(t, fmt.Sprintf("only /proc has the resources of a process: %v", err))
	}
	u.Descriptors = len(fds)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.OK(t, err)
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		into := map[string]*float64{"VmHWM": &u.Peak, "VmRSS": &u.Resident}[name]
		if into != nil {
			kilobytes, err := strconv.Atoi(strings.Fields(value)[0])
			require.OK(t, err)
			*into = float64(kilobytes) / 1024
		}
	}
	processes, err := filepath.Glob("/proc/[0-9]*/stat")
	require.OK(t, err)
	for _, path := range processes {
		stat, err := os.ReadFile(path) // fails if the process has ended since
		_, rest, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(rest); err == nil && fields[1] == strconv.Itoa(pid) {
			u.Children++
		}
	}
	return u
}

// ForgetPeak resets the Peak of a process to its current memory.
func ForgetPeak(t testing.TB, pid int) {
	t.Helper()
	require.OK(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0))
}

// ticks is how many units of Linux's processor time are in a second.
const ticks = 100

// CPU returns the processor time that a process has used.
func CPU(t testing.TB, pid int) time.Duration {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.OK(t, err)
	_, rest, _ := strings.Cut(string(data), ") ") // after the name
	used := 0
	for _, field := range strings.Fields(rest)[11:13] { // utime, stime
		n, err := strconv.Atoi(field)
		require.OK(t, err)
		used += n
	}
	return time.Duration(used) * time.Second / ticks
}
