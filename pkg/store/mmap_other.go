//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package store

import (
	"io"
	"os"
)

// MapFile reads the file: a file that is mapped cannot be removed or replaced on Windows.
func MapFile(f *os.File, size int) ([]byte, error) {
	data := make([]byte, size)
	_, err := io.ReadFull(f, data)
	return data, err
}

// ReleasePages does nothing, as the bytes are not in the file.
func ReleasePages([]byte) {}

// UnmapFile does nothing, as the bytes are the garbage collector's.
func UnmapFile([]byte) error { return nil }
