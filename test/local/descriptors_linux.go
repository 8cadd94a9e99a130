package local

import (
	"syscall"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// WithoutDescriptors runs f while this process can open no more files. No other test may run at the
// same time.
func WithoutDescriptors(t testing.TB, f func()) {
	t.Helper()
	var usual syscall.Rlimit
	require.OK(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &usual))
	none := usual
	none.Cur = 0 // open files stay open
	require.OK(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none))
	defer func() { require.OK(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &usual)) }()
	f()
}
