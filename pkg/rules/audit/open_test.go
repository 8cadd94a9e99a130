package audit

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// A Dir opens a file once while it keeps its name, even a file from before the program. To open it
// again for each line takes a millisecond.
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
			t.Error("the file was opened anew")
		}
		require.OK(t, d.Close())
	}
}
