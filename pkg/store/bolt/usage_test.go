package bolt_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage/usagetest"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestUsage(t *testing.T) {
	usagetest.Run(t, func(t *testing.T) usage.Store {
		return open(t, filepath.Join(t.TempDir(), "approvals.db"), nil).Usage()
	})
}

// BenchmarkUsage measures ten calls per second, by five agents with thirty tools each: the file
// size per day, the time of a write, and the time to read a month.
func BenchmarkUsage(b *testing.B) {
	const days = 31
	path, start := filepath.Join(b.TempDir(), "approvals.db"), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	s, err := bolt.Open(path, nil)
	require.OK(b, err)
	defer s.Close()
	empty, err := os.Stat(path)
	require.OK(b, err)
	busy := func(calls int) *usage.Tally {
		var t usage.Tally
		for call := range calls {
			t.Counts[usage.CallsRead+usage.Metric(call%3)]++
			t.Latency.Observe(float64(5 + call*call%900))
			t.Use(usage.Pair{Agent: fmt.Sprintf("token:agent-%d", call%5), Tool: fmt.Sprintf("server-%d:some_tool_%d", call/5%30/6, call/5%30)}).Calls++
		}
		return &t
	}
	for hour := range days * 24 {
		require.OK(b, s.Usage().Add(b.Context(), map[time.Time]*usage.Tally{start.Add(time.Duration(hour) * time.Hour): busy(36_000)}))
	}
	full, err := os.Stat(path)
	require.OK(b, err)
	b.Run("write", func(b *testing.B) { // the calls of five seconds
		for b.Loop() {
			require.OK(b, s.Usage().Add(b.Context(), map[time.Time]*usage.Tally{start.AddDate(0, 0, days): busy(50)}))
		}
		b.ReportMetric(float64(full.Size()-empty.Size())/days/1000, "kB/day")
	})
	b.Run("read a month", func(b *testing.B) {
		for b.Loop() {
			require.OK(b, s.Usage().Each(b.Context(), usage.Hour, start, start.AddDate(0, 0, days), func(time.Time, *usage.Tally) {}))
		}
	})
}
