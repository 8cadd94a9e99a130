package audit_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// On a full disk there is space for the lines of all calls that were allowed to start. After them
// no call may start until there is space again.
func TestDirFullDisk(t *testing.T) {
	local.OnSmallDisk(t, "8m", func(disk string) { fillDisk(t, disk) })
}

func fillDisk(t *testing.T, disk string) {
	f := &folder{t: t, path: filepath.Join(disk, "audit"), clock: &clock{now: day(4)}, log: &local.Buffer{}}
	f.open()
	f.write("a:1")
	filler := filepath.Join(disk, "filler")
	local.FillDisk(t, filler, 16<<20)
	told := 0
	for ; f.Ready(t.Context()) == nil; told++ { // each call writes its line, until none may start
		f.write(fmt.Sprintf("b:%d", told))
		if told > 100_000 {
			t.Fatal("a full disk stays ready")
		}
	}
	if told < 500 || f.Fault() == nil {
		t.Errorf("%d calls could start, want at least 500; fault %v", told, f.Fault())
	}
	for n := range 500 { // calls that had already started
		f.write(fmt.Sprintf("c:%d", n))
	}
	lost := 0
	for n := 0; lost == 0; n++ {
		if f.Write(t.Context(), audit.Line{Kind: audit.KindCall, Time: day(4), Tool: fmt.Sprintf("d:%d", n)}) != nil {
			lost++
		}
	}
	if said, ok := f.verify(); !ok { // no part of the lost line is left
		t.Error(said)
	}
	require.OK(t, os.Remove(filler))
	f.clock.set(f.clock.Now().Add(2e9))
	require.OK(t, f.Ready(t.Context()))
	f.write("e:1")
	if said, ok := f.verify(); !ok {
		t.Error(said)
	}
	lines, _, err := f.Read(t.Context(), audit.Filter{}, "", 2)
	if err != nil || lines[0].Tool != "e:1" || !strings.HasPrefix(lines[1].Note, "1 line could not be written") {
		t.Errorf("%+v, %v", lines, err)
	}
}

// A folder whose last line is torn opens on a full disk, and reports that it cannot write. When
// there is space, it first notes the torn line.
func TestOpenDirOnFullDisk(t *testing.T) {
	local.OnSmallDisk(t, "8m", func(disk string) {
		f := &folder{t: t, path: filepath.Join(disk, "audit"), clock: &clock{now: day(4)}, log: &local.Buffer{}}
		f.open()
		f.write("a:1")
		require.OK(t, f.Close())
		raw, err := os.ReadFile(f.file(4))
		require.OK(t, err)
		for len(raw)%4096 != 0 { // the next byte needs another page
			raw = append(raw, 'x')
		}
		require.OK(t, os.WriteFile(f.file(4), raw, 0o600))
		filler := filepath.Join(disk, "filler")
		local.FillDisk(t, filler, 16<<20)
		f.open()
		if !errors.Is(f.Fault(), syscall.ENOSPC) || f.Ready(t.Context()) == nil {
			t.Errorf("the Dir says that it can write: %v", f.Fault())
		}
		require.OK(t, os.Remove(filler))
		f.clock.set(f.clock.Now().Add(2e9))
		require.OK(t, f.Ready(t.Context()))
		f.write("b:1")
		if lines, _, err := f.Read(t.Context(), audit.Filter{}, "", 2); err != nil || lines[0].Tool != "b:1" || !strings.Contains(lines[1].Note, "incomplete") {
			t.Errorf("%+v, %v", lines, err)
		}
	})
}

// A Dir counts the lines that are lost on a full disk. If it cannot count them, the next start
// notes that lines may be missing.
func TestDirLostLinesOverARestart(t *testing.T) {
	local.OnSmallDisk(t, "8m", func(disk string) {
		f := &folder{t: t, path: filepath.Join(disk, "audit"), clock: &clock{now: day(4)}, log: &local.Buffer{}}
		f.open()
		f.write("a:1")
		filler := filepath.Join(disk, "filler")
		local.FillDisk(t, filler, 16<<20)
		long := audit.Line{Kind: audit.KindCall, Time: day(4), Tool: strings.Repeat("x", 400)}
		lose := func(n int) {
			for lost := 0; lost < n; {
				if f.Write(t.Context(), long) != nil {
					lost++
				}
			}
		}
		lose(100)
		_ = f.Close() // it may have no space
		f.open()
		lose(3)
		require.OK(t, os.Remove(filler))
		f.write("b:1")
		notes := f.notes()
		counted := slices.ContainsFunc(notes, func(s string) bool { return strings.HasPrefix(s, "100 lines") })
		unclean := slices.ContainsFunc(notes, func(s string) bool { return strings.Contains(s, "may be missing") })
		if !strings.HasPrefix(notes[0], "3 lines could not be written") || !counted && !unclean {
			t.Errorf("%q", notes)
		}
	})
}
