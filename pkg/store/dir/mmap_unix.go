//go:build linux || darwin || freebsd || netbsd || openbsd

package dir

import (
	"os"
	"syscall"
)

// mapFile returns the file as a part of the address space. It stays there, without the file's
// descriptor or name, until the process ends.
func mapFile(f *os.File, size int) ([]byte, error) {
	return syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
}
