//go:build unix

package capacity

import (
	"math"
	"net"
	"syscall"
)

// descriptors returns how many files this process can have open. The Go runtime has already raised
// its soft limit to the hard limit.
func descriptors() int {
	var l syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l)
	if err != nil || uint64(l.Cur) > math.MaxInt32 { //nolint:unconvert // the types differ from system to system
		return usualDescriptors
	}
	return int(l.Cur)
}

// hasUnread reports whether a connection has bytes that nobody has read yet.
func hasUnread(c net.Conn) bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	err = raw.Control(func(fd uintptr) {
		n, _, _ = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return err == nil && n > 0
}
