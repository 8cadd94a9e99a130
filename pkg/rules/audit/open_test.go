package audit

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// A Dir opens its current file only once, even if an earlier process created the file.
// To open the file again for each line would take a millisecond.
func TestDirOpensOnce(t *testing.T) {
	path := t.TempDir()
	for range 2 {
		d, err := OpenDir(path, nil)
		require.OK(t, err)
		require.OK(t, d.Write(t.Context(), Line{Kind: KindCall}))
		file := d.file
		require.OK(t, d.Ready(t.Context()))
		require.OK(t, d.Write(t.Context(), Line{Kind: KindCall}))
		if d.file != file {
			t.Error("the file was opened again")
		}
		require.OK(t, d.Close())
	}
}
