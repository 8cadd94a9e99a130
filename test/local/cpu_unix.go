//go:build unix

package local

import (
	"syscall"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// OwnCPU returns the processor time that this process has used, with a finer resolution than [CPU].
func OwnCPU(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	require.OK(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
