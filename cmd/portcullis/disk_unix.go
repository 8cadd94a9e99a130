//go:build linux || darwin

package main

import "syscall"

// diskLeft returns how many bytes can be written into a folder.
func diskLeft(dir string) (int64, bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true //nolint:unconvert // the types differ from system to system
}
