// Package capacity limits the connections, request memory and streams of one process. It decides
// which holder gives up a place when a bounded resource is full, and recognizes two failures of the
// machine: a full disk, and no file descriptor left.
//
// Such a failure ends without a change to any config. It has its own error, so that nobody looks
// for another cause. Without the limits, one client could cause such a failure for all other
// clients.
//
// If only each holder has a limit, a few holders at their limit can take every place. If all
// holders share only one limit, one holder can take every place. [Yield] lets every holder use free
// places. If none is free, the heaviest holder gives up its least recently used place, if it has at
// least as many places as the new user.
package capacity

import (
	"errors"
	"os"
	"syscall"
)

// IsDiskFull reports whether err says that a disk, or a user's quota on it, is full.
func IsDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// IsDescriptors reports whether err says that this process, or the whole system, can open no more
// files.
func IsDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// Probe returns why no file can be opened now, or nil if one can.
func Probe() error {
	f, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	return f.Close()
}
