// Package capacity bounds what one process takes, in connections, memory of requests and streams,
// decides who gives a place back when all places of a bounded resource are taken, and says when the
// machine is why something failed: its disk is full, or no file descriptor is left.
//
// Such a failure ends without a change to any config. It has a name of its own, so that nobody
// looks for another cause. Without the bounds one client could bring it about for all others.
//
// A bound for each holder alone is not fair: a few holders at their bound take every place. A
// common bound alone is not fair either: one holder takes every place. [Yield] lets anybody use
// places that are free, and takes a place only from a holder who has at least as much as the one
// who asks: the heaviest, and of its places the one that it has not used for the longest time.
package capacity

import (
	"errors"
	"os"
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

// Probe returns why no file can be opened at this moment; nil: one can.
func Probe() error {
	f, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	return f.Close()
}
