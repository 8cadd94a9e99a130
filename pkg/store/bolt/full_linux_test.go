package bolt_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Where there is no room for the first file none is left, which would be taken for a damaged one: once there
// is room, it is made. The disk is a small one of its own, in a process of its own.
func TestOpenOnFullDisk(t *testing.T) {
	if disk := os.Getenv("BOLT_TEST_DISK"); disk != "" {
		beginOnFullDisk(t, disk)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOpenOnFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), "BOLT_TEST_DISK="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("this machine lets nobody have a disk of their own: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}

func beginOnFullDisk(t *testing.T, disk string) {
	require.OK(t, syscall.Mount("none", disk, "tmpfs", 0, "size=1m"))
	filler, path := filepath.Join(disk, "filler"), filepath.Join(disk, "approvals.db")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	if _, err := bolt.Open(path, nil); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Open = %v, want that there is no room", err)
	}
	if left, err := filepath.Glob(path + "*"); err != nil || len(left) > 0 {
		t.Errorf("%v are left (%v)", left, err)
	}
	require.OK(t, os.Remove(filler))
	s, err := bolt.Open(path, nil)
	require.OK(t, err)
	require.OK(t, s.Close())
}
