//go:build linux || darwin || freebsd || netbsd || openbsd

package store

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// MapFile returns the first size bytes of the file as a part of the address space. They stay there,
// without the file's descriptor or name, until [UnmapFile] or the end of the process.
func MapFile(f *os.File, size int) ([]byte, error) {
	return syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
}

// ReleasePages lets the kernel take the memory of what [MapFile] returned, which is read from the
// file again where somebody reads on.
func ReleasePages(data []byte) { _ = unix.Madvise(data, unix.MADV_DONTNEED) } // advice: where it is not taken, nothing changes

// UnmapFile gives back what [MapFile] returned. Who reads it afterwards ends the process.
func UnmapFile(data []byte) error { return syscall.Munmap(data) }
