//go:build linux || darwin || freebsd || netbsd || openbsd

package store

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// MapFile maps the first size bytes of the file. They stay mapped, without the file's descriptor or
// name, until [UnmapFile] or the end of the process.
func MapFile(f *os.File, size int) ([]byte, error) {
	return syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
}

// ReleasePages lets the kernel reclaim the memory of data from [MapFile]. A later access reads the
// file again.
func ReleasePages(data []byte) { _ = unix.Madvise(data, unix.MADV_DONTNEED) } // only advice

// UnmapFile releases the memory of [MapFile]. A later access ends the process.
func UnmapFile(data []byte) error { return syscall.Munmap(data) }
