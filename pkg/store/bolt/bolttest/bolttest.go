// Package bolttest opens a store on a file for tests that need a persistent store.
package bolttest

import (
	"path/filepath"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
)

// Open opens approvals.db in a folder, as the gateway does. It closes the store when the test ends.
func Open(t testing.TB, folder string) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(filepath.Join(folder, "approvals.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
