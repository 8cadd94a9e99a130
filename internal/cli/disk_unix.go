//go:build linux || darwin

package cli

import (
	"io/fs"
	"syscall"
)

// diskLeft returns the free space for a folder, in bytes.
func diskLeft(dir string) (int64, bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true //nolint:unconvert // the types differ from system to system
}

// writable returns an error if the process may not create files in a folder. It does not create a
// file for the check.
func writable(dir string) error {
	const write, search = 2, 1
	if err := syscall.Access(dir, write|search); err != nil {
		return &fs.PathError{Op: "write into", Path: dir, Err: err}
	}
	return nil
}
