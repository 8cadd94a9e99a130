package bolt_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// If there is no room for the first file, Open leaves no file, because the next start would report
// a damaged file. When there is room, Open makes the file.
func TestOpenOnFullDisk(t *testing.T) {
	local.OnSmallDisk(t, "1m", func(disk string) {
		filler, path := filepath.Join(disk, "filler"), filepath.Join(disk, "approvals.db")
		local.FillDisk(t, filler, 2<<20)
		if _, err := bolt.Open(path, nil); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Open = %v, want ENOSPC", err)
		}
		if left := names(t, disk); len(left) != 1 {
			t.Errorf("files left: %q", left)
		}
		require.OK(t, os.Remove(filler))
		s, err := bolt.Open(path, nil)
		require.OK(t, err)
		require.OK(t, s.Close())
	})
}

// A file whose free pages use no disk space can be opened on a full disk. Reads succeed, and writes
// fail until there is room.
func TestOpenKnownFileOnFullDisk(t *testing.T) {
	local.OnSmallDisk(t, "2m", func(disk string) {
		filler, path := filepath.Join(disk, "filler"), filepath.Join(disk, "approvals.db")
		s, err := bolt.Open(path, nil)
		require.OK(t, err)
		put := func(r approval.Record) (approval.Record, error) { return s.Put(t.Context(), r, nil) }
		r, err := put(approval.Record{Server: "files", Tool: "get_file"})
		require.OK(t, err)
		require.OK(t, s.Close())
		s, err = bolt.Open(path, nil) // writes page 4, where bbolt looks for a meta page of 16 KB
		require.OK(t, err)
		require.OK(t, s.Close())
		punchFreePages(t, path)
		local.FillDisk(t, filler, 4<<20)

		s, err = bolt.Open(path, nil)
		require.OK(t, err)
		defer s.Close()
		if got, err := s.Get(t.Context(), r.ID()); err != nil || got.Rev != r.Rev {
			t.Errorf("Get = %+v, %v", got, err)
		}
		if _, err := put(r); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Put = %v, want ENOSPC", err)
		}
		require.OK(t, os.Remove(filler))
		if _, err := put(r); err != nil {
			t.Errorf("Put with room = %v", err)
		}
	})
}

// punchFreePages releases the disk space of the free pages of a bbolt file, as if nobody had
// written them.
func punchFreePages(t *testing.T, path string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	require.OK(t, err)
	var free []int64
	require.OK(t, db.View(func(tx *bbolt.Tx) error {
		for id := 0; ; id++ {
			p, err := tx.Page(id)
			if p == nil {
				return err
			}
			if p.Type == "free" {
				free = append(free, int64(id*db.Info().PageSize))
			}
		}
	}))
	require.OK(t, db.Close())
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.OK(t, err)
	const punch, page = 2 | 1, 4096 // FALLOC_FL_PUNCH_HOLE, FALLOC_FL_KEEP_SIZE
	for _, at := range free {
		require.OK(t, syscall.Fallocate(int(f.Fd()), punch, at, page))
	}
	require.OK(t, f.Close())
}

// Without room for a copy, Copy returns the cause and leaves no file.
func TestCopyOnFullDisk(t *testing.T) {
	local.OnSmallDisk(t, "2m", func(disk string) {
		path := filepath.Join(disk, "approvals.db")
		s, err := bolt.Open(path, nil)
		require.OK(t, err)
		local.FillDisk(t, filepath.Join(disk, "filler"), 4<<20)
		if _, _, _, err := s.Copy(t.Context()); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Copy = %v, want ENOSPC", err)
		}
		if left, err := filepath.Glob(path + ".copy-*"); err != nil || len(left) > 0 {
			t.Errorf("copies left: %v (%v)", left, err)
		}
		require.OK(t, s.Close())
	})
}

// A file of the previous build stays unchanged if the disk has no room for its copy, or for the
// writes of the conversion. When there is room, Open converts the file.
func TestConvertOnFullDisk(t *testing.T) {
	for name, copies := range map[string]float64{"no room": 0, "half a copy": .5, "one copy": 1} {
		t.Run(name, func(t *testing.T) {
			local.OnSmallDisk(t, "2m", func(disk string) {
				path, entries := filepath.Join(disk, "approvals.db"), manyTokens(oldEntries(t), 100)
				writeOld(t, path, entries) // with too few free pages for the documents
				was, before := dump(t, path, everything), read(t, path)
				require.OK(t, os.WriteFile(path, before, 0o600)) // without holes
				filler, spare := filepath.Join(disk, "filler"), filepath.Join(disk, "spare")
				room := int(copies * float64(len(before)))
				require.OK(t, os.WriteFile(spare, make([]byte, room), 0o600))
				local.FillDisk(t, filler, 4<<20)
				require.OK(t, os.Remove(spare))
				_, err := bolt.Open(path, &store.Options{Now: atOldNow})
				isCopyAtFault := err != nil && strings.Contains(err.Error(), path+beforeName)
				if !errors.Is(err, syscall.ENOSPC) || isCopyAtFault != (copies < 1) {
					t.Errorf("Open = %v, want ENOSPC", err)
				}
				if !maps.Equal(dump(t, path, everything), was) {
					t.Error("the file was changed")
				}
				if left := names(t, disk); len(left) != 2+int(copies) { // and the filler
					t.Errorf("files left: %q", left)
				}
				require.OK(t, os.Remove(filler))
				s, err := bolt.Open(path, &store.Options{Now: atOldNow})
				require.OK(t, err)
				wantDocs(t, s, entries)
				require.OK(t, s.Close())
				if !maps.Equal(dump(t, path+beforeName, everything), was) {
					t.Error("the copy differs from the file before")
				}
			})
		})
	}
}
