package bolt_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Where there is no room for the first file none is left, which would be taken for a damaged one: once there
// is room, it is made.
func TestOpenOnFullDisk(t *testing.T) {
	local.OnSmallDisk(t, "1m", func(disk string) {
		filler, path := filepath.Join(disk, "filler"), filepath.Join(disk, "approvals.db")
		local.FillDisk(t, filler, 2<<20)
		if _, err := bolt.Open(path, nil); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Open = %v, want that there is no room", err)
		}
		if left, err := filepath.Glob(path + "*"); err != nil || len(left) > 0 {
			t.Errorf("%v are left (%v)", left, err)
		}
		require.OK(t, os.Remove(filler))
		s, err := bolt.Open(path, nil)
		require.OK(t, err)
		require.OK(t, s.Close())
	})
}
