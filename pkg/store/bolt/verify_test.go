package bolt

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A check of a large file releases the memory of the pages that it has read.
func TestVerifyReleasesMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.db")
	s, err := Open(path, nil)
	require.OK(t, err)
	const pages = maxPages + maxPages/2
	all := make([]approval.Write, 2*pages)
	for i := range all { // a page has at least two entries
		all[i].Record = approval.Record{Server: "s", Tool: fmt.Sprint("t", i), State: approval.Pending, Current: bytes.Repeat([]byte("d"), os.Getpagesize()/2)}
	}
	_, err = s.PutAll(t.Context(), all)
	require.OK(t, err)
	require.OK(t, s.Close())
	data, err := os.ReadFile(path)
	require.OK(t, err)
	times := 0
	require.OK(t, verifyData(data, func() { times++ }))
	if times != 1 {
		t.Errorf("memory was released %d times in more than %d pages, want 1", times, pages)
	}
}
