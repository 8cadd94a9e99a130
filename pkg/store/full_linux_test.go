package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestWriteFileOnFullDisk(t *testing.T) {
	local.OnSmallDisk(t, "1m", func(disk string) {
		path, filler := filepath.Join(disk, "a.json"), filepath.Join(disk, "filler")
		require.OK(t, store.WriteFile(path, 0o600, store.Create, content("old", nil)))
		local.FillDisk(t, filler, 2<<20)
		big := string(make([]byte, 64<<10))
		if err := store.WriteFile(path, 0o600, store.Replace, content(big, nil)); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("error = %v, want ENOSPC", err)
		}
		data, err := os.ReadFile(path)
		if err != nil || string(data) != "old" {
			t.Errorf("the file has %q (%v)", data, err)
		}
		if left, err := filepath.Glob(filepath.Join(disk, ".tmp-*")); err != nil || len(left) > 0 {
			t.Errorf("temporary files left: %q (%v)", left, err)
		}
	})
}
