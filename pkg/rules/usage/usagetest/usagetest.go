// Package usagetest helps to test usage. It has [Run], which checks the promises of every
// usage.Store, and [Mem], a working store in memory that fails on demand.
package usagetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A Mem is a [usage.Store] in memory. The zero value is ready to use.
type Mem struct {
	Fail func() error // each operation calls Fail, and returns its error; nil: none fails

	mu   sync.Mutex
	kept map[usage.Unit]map[time.Time]*usage.Tally
}

var _ usage.Store = (*Mem)(nil)

// Add implements [usage.Store].
func (m *Mem) Add(ctx context.Context, minutes map[time.Time]*usage.Tally) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fail(ctx); err != nil {
		return err
	}
	if m.kept == nil {
		m.kept = map[usage.Unit]map[time.Time]*usage.Tally{usage.Minute: {}, usage.Hour: {}}
	}
	for minute, t := range minutes {
		for unit, keep := range map[usage.Unit]int{usage.Minute: usage.KeepMinutes, usage.Hour: usage.KeepHours} {
			start, in := minute.Truncate(time.Duration(unit)), m.kept[unit]
			if in[start] == nil {
				in[start] = &usage.Tally{}
			}
			in[start].Add(t)
			if all := slices.SortedFunc(maps.Keys(in), time.Time.Compare); len(all) > keep {
				delete(in, all[0])
			}
		}
	}
	return nil
}

// Each implements [usage.Store].
func (m *Mem) Each(ctx context.Context, u usage.Unit, from, to time.Time, do func(time.Time, *usage.Tally)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fail(ctx); err != nil {
		return err
	}
	for _, start := range slices.SortedFunc(maps.Keys(m.kept[u]), time.Time.Compare) {
		if !start.Before(from) && start.Before(to) {
			do(start, m.kept[u][start])
		}
	}
	return nil
}

func (m *Mem) fail(ctx context.Context) error {
	if err := ctx.Err(); err != nil || m.Fail == nil {
		return err
	}
	return m.Fail()
}

// The first minute and the first hour of the tests start at noon. The tests read until ever.
var (
	noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	ever = noon.AddDate(1, 0, 0)
)

func tally(calls int) *usage.Tally {
	out := &usage.Tally{}
	out.Counts[usage.CallsRead] = calls
	for range calls {
		out.Latency.Observe(40)
	}
	out.Use(usage.Pair{Agent: "ci", Tool: "fs:read_file"}).Calls = calls
	return out
}

func add(t *testing.T, s usage.Store, minutes map[time.Time]*usage.Tally) {
	t.Helper()
	require.OK(t, s.Add(t.Context(), minutes))
}

// read returns the stored tallies, each as its time and its number of calls.
func read(t *testing.T, s usage.Store, u usage.Unit, from, to time.Time) (out []string) {
	t.Helper()
	require.OK(t, s.Each(t.Context(), u, from, to, func(start time.Time, got *usage.Tally) {
		n := got.Counts[usage.CallsRead]
		if d := cmp.Diff(tally(n).Uses(), got.Uses()); d != "" || tally(n).Latency != got.Latency {
			t.Errorf("%v: (-want +got)\n%s", start, d)
		}
		out = append(out, fmt.Sprint(start.Format("02 15:04 "), n))
	}))
	return out
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// Run checks each promise of [usage.Store] in a subtest. open returns an empty store.
func Run(t *testing.T, open func(t *testing.T) usage.Store) {
	t.Run("empty", func(t *testing.T) {
		same(t, read(t, open(t), usage.Minute, time.Time{}, ever))
	})
	t.Run("minutes and their hours, in order", func(t *testing.T) {
		s := open(t)
		add(t, s, map[time.Time]*usage.Tally{noon.Add(59 * time.Minute): tally(2), noon: tally(1), noon.Add(time.Hour): tally(4)})
		add(t, s, map[time.Time]*usage.Tally{noon: tally(8), noon.Add(-time.Minute): tally(16)}) // a clock that was set back
		same(t, read(t, s, usage.Minute, time.Time{}, ever), "22 11:59 16", "22 12:00 9", "22 12:59 2", "22 13:00 4")
		same(t, read(t, s, usage.Hour, time.Time{}, ever), "22 11:00 16", "22 12:00 11", "22 13:00 4")
		same(t, read(t, s, usage.Minute, noon, noon.Add(time.Hour)), "22 12:00 9", "22 12:59 2")
	})
	t.Run("keeps no reference", func(t *testing.T) {
		s, mine := open(t), tally(1)
		add(t, s, map[time.Time]*usage.Tally{noon: mine})
		mine.Counts[usage.CallsRead] = 99
		same(t, read(t, s, usage.Minute, time.Time{}, ever), "22 12:00 1")
	})
	t.Run("keeps the newest", func(t *testing.T) {
		s, all := open(t), map[time.Time]*usage.Tally{}
		for n := range usage.KeepMinutes + 3 {
			all[noon.Add(time.Duration(n)*time.Minute)] = tally(1)
		}
		add(t, s, all)
		if got := read(t, s, usage.Minute, time.Time{}, ever); len(got) != usage.KeepMinutes || got[0] != "22 12:03 1" {
			t.Errorf("%d minutes from %s", len(got), got[0])
		}
		if got := read(t, s, usage.Hour, time.Time{}, ever); len(got) != 3 || got[0] != "22 12:00 60" {
			t.Errorf("%d hours from %s", len(got), got[0])
		}
		for n := range usage.KeepHours + 2 {
			add(t, s, map[time.Time]*usage.Tally{noon.Add(time.Duration(n) * time.Hour): tally(1)})
		}
		if got := read(t, s, usage.Hour, time.Time{}, ever); len(got) != usage.KeepHours || got[0] != "22 14:00 4" {
			t.Errorf("%d hours from %s", len(got), got[0])
		}
	})
	t.Run("a time far ahead removes nothing older", func(t *testing.T) {
		s := open(t)
		add(t, s, map[time.Time]*usage.Tally{noon: tally(1)})
		add(t, s, map[time.Time]*usage.Tally{noon.AddDate(20, 0, 0): tally(1)})
		add(t, s, map[time.Time]*usage.Tally{noon.Add(time.Minute): tally(1)})
		same(t, read(t, s, usage.Minute, time.Time{}, ever), "22 12:00 1", "22 12:01 1")
	})
	t.Run("canceled", func(t *testing.T) {
		s := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if s.Add(ctx, map[time.Time]*usage.Tally{noon: tally(1)}) == nil || s.Each(ctx, usage.Minute, noon, ever, nil) == nil {
			t.Error("an operation with an ended context has no error")
		}
		same(t, read(t, s, usage.Minute, time.Time{}, ever))
	})
}
