//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package dir

import (
	"io"
	"os"
)

// mapFile reads the file: a file that is mapped cannot be removed or replaced on Windows.
func mapFile(f *os.File, size int) ([]byte, error) {
	data := make([]byte, size)
	_, err := io.ReadFull(f, data)
	return data, err
}
