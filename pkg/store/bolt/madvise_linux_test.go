package bolt_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// If a process reads every record once, as in its first sync, it does not keep the whole file in
// memory.
func TestRecordsLeaveMemory(t *testing.T) {
	const servers, each = 20, 20
	path := filepath.Join(t.TempDir(), "approvals.db")
	s := open(t, path, nil)
	definition := bytes.Repeat([]byte("0123456789abcdef"), tool.MaxDefinition/16)
	var all []approval.Write
	for i := range servers * each {
		all = append(all, approval.Write{Record: approval.Record{
			Server: fmt.Sprintf("s%d", i/each), Tool: fmt.Sprintf("t%d", i), State: approval.Pending, Current: definition,
		}})
	}
	_, err := s.PutAll(t.Context(), all)
	require.OK(t, err)
	for range 2 { // the second round reads pages that the store has released
		for i := range servers {
			records, err := s.Records(t.Context(), fmt.Sprintf("s%d", i))
			require.OK(t, err)
			if len(records) != each || !bytes.Equal(records[each-1].Current, definition) {
				t.Fatalf("Records returned %d records, want %d with the stored definition",
					len(records), each)
			}
		}
		size, in := fileSize(t, path), resident(t, path)
		if in > size/2 {
			t.Errorf("%d of %d bytes of the file are in memory after all records "+
				"were read, want at most half", in, size)
		}
	}
}

func fileSize(t *testing.T, path string) int {
	t.Helper()
	info, err := os.Stat(path)
	require.OK(t, err)
	return int(info.Size())
}

// resident returns how many bytes of a file are in memory. This process must have mapped the file.
func resident(t *testing.T, path string) int {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	require.OK(t, err)
	m := regexp.MustCompile(`(?s) ` + regexp.QuoteMeta(path) + `\n.*?\nRss: *([0-9]+) kB`).FindSubmatch(smaps)
	if m == nil {
		t.Fatalf("%s is not mapped", path)
	}
	n, err := strconv.Atoi(string(m[1]))
	require.OK(t, err)
	return n << 10
}
