package audit_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// newLimited returns a folder that begins on the second of the month, with a limit that the test
// may change.
func newLimited(t *testing.T, l *audit.Limit) *folder {
	t.Helper()
	f := &folder{t: t, path: filepath.Join(t.TempDir(), "audit"), clock: &clock{now: day(2)}, log: &local.Buffer{}}
	d, err := audit.OpenDir(f.path, &audit.DirOptions{
		Now: f.clock.Now, Log: slog.New(slog.NewTextHandler(f.log, nil)),
		Days: func() int { return 30 }, Limit: func() audit.Limit { return *l },
	})
	require.OK(t, err)
	f.Dir = d
	t.Cleanup(func() { _ = d.Close() })
	return f
}

// notes returns the notes in the files, the newest first.
func (f *folder) notes() []string {
	f.t.Helper()
	lines, _, err := f.Read(f.t.Context(), audit.Filter{}, "", 1<<20)
	require.OK(f.t, err)
	var out []string
	for _, l := range lines {
		if l.Kind == audit.KindNote {
			out = append(out, l.Note)
		}
	}
	return out
}

// fill writes n calls, and returns how many of them were lost.
func (f *folder) fill(n int) (lost int) {
	f.t.Helper()
	for i := range n {
		err := f.Write(f.t.Context(), audit.Line{V: 1, Time: f.clock.Now(), Kind: audit.KindCall, Tool: fmt.Sprintf("a:%d", i), Decision: audit.Allowed})
		if err != nil && !errors.Is(err, audit.ErrLimit) {
			f.t.Fatal(err)
		}
		if err != nil {
			lost++
		}
	}
	return lost
}

func (f *folder) checked() {
	f.t.Helper()
	if said, ok := f.verify(); !ok {
		f.t.Error(said)
	}
}

// At the limit the Dir removes the file of the oldest day, each time. The newest file notes which
// file was removed, and the chain of the remaining files is whole.
func TestDirLimitDropsTheOldestDay(t *testing.T) {
	l := &audit.Limit{Bytes: 64 << 10}
	f := newLimited(t, l)
	for n := 2; n <= 6; n++ {
		f.clock.set(day(n))
		if lost := f.fill(150); lost > 0 {
			t.Errorf("day %d lost %d lines", n, lost)
		}
		if size, limit := f.Size(); size > limit+1<<10 {
			t.Errorf("day %d has %d bytes of %d", n, size, limit)
		}
	}
	if got := f.files(); got != "2026-03-05 2026-03-06" {
		t.Errorf("files %s", got)
	}
	notes := f.notes()
	if len(notes) != 2 || !strings.HasPrefix(notes[0], "The file of 2026-03-04 was removed, with ") {
		t.Fatalf("notes %q", notes)
	}
	said, ok := f.verify()
	_, hash, _ := strings.Cut(notes[0], "The hash of its last line is ")
	if !ok || !strings.Contains(said, "begins after "+strings.TrimSuffix(hash, ".")) {
		t.Errorf("the chain does not begin after the day that was removed last:\n%s", said)
	}
	if err := f.Fault(); err != nil {
		t.Errorf("fault %v", err)
	}
}

// The file of the newest day stays. At the limit the Dir notes once that lines will be missing.
// Afterwards it notes how many lines are missing.
func TestDirLimitOfOneDay(t *testing.T) {
	l := &audit.Limit{Bytes: 64 << 10}
	f := newLimited(t, l)
	lost := f.fill(1000)
	if lost < 100 || !errors.Is(f.Fault(), audit.ErrLimit) {
		t.Errorf("%d lines lost, fault %v", lost, f.Fault())
	}
	if size, _ := f.Size(); size > l.Bytes+1<<10 {
		t.Errorf("the files have %d bytes", size)
	}
	if notes := f.notes(); len(notes) != 1 || !strings.Contains(notes[0], "The audit has reached audit.max_bytes.") {
		t.Errorf("notes %q", notes)
	}
	f.checked()
	f.clock.set(day(3))
	f.write("b:1")
	want := []string{fmt.Sprintf("%d lines could not be written before this one", lost), "The file of 2026-03-02 was removed"}
	notes := f.notes()
	for i, text := range want {
		if len(notes) != len(want) || !strings.HasPrefix(notes[i], text) {
			t.Errorf("notes %q", notes)
		}
	}
	if got := f.files(); got != "2026-03-03" || f.Fault() != nil {
		t.Errorf("files %s, fault %v", got, f.Fault())
	}
	f.checked()
}

// If calls must have lines, no call may start at the limit, and nothing is removed. Calls that
// were allowed to start have space for their lines. Calls start again when there is space again.
func TestDirLimitRefuses(t *testing.T) {
	l := &audit.Limit{Bytes: 256 << 10, Refuse: true}
	f := newLimited(t, l)
	f.fill(100)
	f.clock.set(day(3))
	ready := 0
	for ; f.Ready(t.Context()) == nil; ready++ {
		f.write(fmt.Sprintf("b:%d", ready))
		if ready > 10_000 {
			t.Fatal("the Dir is ready at any size")
		}
	}
	if err := f.Ready(t.Context()); !errors.Is(err, audit.ErrLimit) || !errors.Is(f.Fault(), audit.ErrLimit) {
		t.Errorf("ready %v, fault %v", err, f.Fault())
	}
	if lost := f.fill(50); lost > 0 {
		t.Errorf("%d lines of running calls are lost", lost)
	}
	if err := f.Fault(); !errors.Is(err, audit.ErrLimit) {
		t.Errorf("a successful write clears the fault: %v", err)
	}
	lost := f.fill(2000) // refused calls
	if size, _ := f.Size(); lost == 0 || size > l.Bytes+1<<10 {
		t.Errorf("%d lines lost, %d bytes", lost, size)
	}
	if got := f.files(); got != "2026-03-02 2026-03-03" || len(f.notes()) != 1 {
		t.Errorf("files %s, notes %q", got, f.notes())
	}
	f.checked()
	f.clock.set(day(3).AddDate(0, 0, 1))
	if err := f.Ready(t.Context()); !errors.Is(err, audit.ErrLimit) || f.files() != "2026-03-02 2026-03-03 2026-03-04" {
		t.Errorf("the next day: %v, files %s", err, f.files())
	}

	require.OK(t, os.Rename(f.file(2), filepath.Join(t.TempDir(), "kept"))) // as an operator makes room
	l.Bytes += 64 << 10
	f.clock.set(f.clock.Now().Add(2 * time.Second))
	if err := f.Fault(); errors.Is(err, audit.ErrLimit) && f.Ready(t.Context()) != nil {
		t.Errorf("with free space: %v", err)
	}
	f.write("c:1")
	if notes := f.notes(); !strings.HasPrefix(notes[0], fmt.Sprintf("%d lines could not be written", lost)) || f.Fault() != nil {
		t.Errorf("notes %q, fault %v", notes, f.Fault())
	}
	f.checked()
}

// At the limit, days past their retention are removed first.
func TestDirLimitSweepsFirst(t *testing.T) {
	l := &audit.Limit{Bytes: 64 << 10, Refuse: true}
	f := newLimited(t, l)
	f.fill(1000)
	f.clock.set(day(2).AddDate(0, 0, 31))
	if err := f.Ready(t.Context()); err != nil || strings.Contains(f.files(), "2026-03-02") {
		t.Errorf("ready %v, files %s", err, f.files())
	}
	f.write("b:1")
	f.checked()
}
