// Package repo finds the files of this repository for tests, wherever they run.
package repo

import (
	"os"
	"path/filepath"
)

// Path returns the path of a file of the repository, named by slashes from its root. A test
// runs in the folder of its package: the root is the folder above that holds go.mod.
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
