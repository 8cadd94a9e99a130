package local

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// OnSmallDisk runs a test in a separate process with a separate disk of the given size ("8m"),
// which the test may fill. It skips the test if the machine does not allow such a disk. No subtest
// may call it.
func OnSmallDisk(t *testing.T, size string, test func(disk string)) {
	t.Helper()
	const variable = "PORTCULLIS_TEST_DISK"
	if disk := os.Getenv(variable); disk != "" {
		require.OK(t, syscall.Mount("none", disk, "tmpfs", 0, "size="+size))
		test(disk)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), variable+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("this machine does not allow a user namespace with its own disk: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}

// FillDisk fills a disk that has less than the given number of bytes free. Removing the file frees
// the space again.
func FillDisk(t *testing.T, filler string, bytes int) {
	t.Helper()
	if err := os.WriteFile(filler, make([]byte, bytes), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
}
