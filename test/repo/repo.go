// Package repo finds the files of this repository for tests of every package.
package repo

import (
	"os"
	"path/filepath"
)

// Path returns the path of a file of the repository. name is relative to the root and has slashes.
// A test runs in the folder of its package, and the root is the folder above it that contains
// go.mod.
func Path(name string) string {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return filepath.Join(dir, filepath.FromSlash(name))
}

// Programs returns the folder with the programs that `make test` has built once for all packages,
// or "". Then each package builds the programs that it needs.
func Programs() string { return os.Getenv("PORTCULLIS_PROGRAMS") }
