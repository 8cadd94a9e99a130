//go:build !linux

package local

import (
	"os"
	"testing"
)

// Terminal skips the test: only Linux has terminals for tests.
func Terminal(t testing.TB, _ string) (tty *os.File, shown func() string) {
	t.Helper()
	t.Skip("this system has no terminal for tests")
	return nil, nil
}
