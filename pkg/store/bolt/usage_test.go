package bolt_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/usage"
	"github.com/portcullis-mcp/portcullis/pkg/usage/usagetest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestUsage(t *testing.T) {
	usagetest.Run(t, func(t *testing.T) usage.Store {
		return open(t, filepath.Join(t.TempDir(), "approvals.db"), nil).Usage()
	})
}

// What was flushed is there after the process was killed: nothing is left to be written at the end.
func TestUsageIsThereAfterAReopening(t *testing.T) {
	path, noon := filepath.Join(t.TempDir(), "approvals.db"), time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	s := open(t, path, nil)
	var one usage.Tally
	one.Counts[usage.SearchesBarren] = 3
	require.OK(t, s.Usage().Add(t.Context(), map[time.Time]*usage.Tally{noon: &one}))
	require.OK(t, s.Close())
	got := 0
	require.OK(t, open(t, path, nil).Usage().Each(t.Context(), usage.Hour, noon, noon.Add(time.Hour), func(_ time.Time, u *usage.Tally) {
		got += u.Counts[usage.SearchesBarren]
	}))
	if got != 3 {
		t.Errorf("%d searches, want 3", got)
	}
}
