// Package capacity says when this machine, and not a server or a file, is why something failed: its disk is full,
// or the process has no file descriptor left.
//
// Such a failure ends without a change to any config, so nobody should be sent to look for another cause.
package capacity

import (
	"errors"
	"syscall"
)

// IsDiskFull reports whether err says that a disk, or a user's part of it, has no room left.
func IsDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// IsDescriptors reports whether err says that this process, or the whole system, can open no more files.
func IsDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
