//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package store

import (
	"io"
	"os"
)

// MapFile reads the file: Windows cannot remove or replace a mapped file.
func MapFile(f *os.File, size int) ([]byte, error) {
	data := make([]byte, size)
	_, err := io.ReadFull(f, data)
	return data, err
}

// ReleasePages does nothing, because the bytes are not mapped.
func ReleasePages([]byte) {}

// UnmapFile does nothing: the garbage collector frees the bytes.
func UnmapFile([]byte) error { return nil }
