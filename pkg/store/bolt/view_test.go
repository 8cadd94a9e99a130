package bolt_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// names returns the names in a folder.
func names(t *testing.T, folder string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.OK(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// A view reads a missing file, a file of an earlier version and a file of this version. It changes
// no file, and leaves no temporary file.
func TestView(t *testing.T) {
	for name, tt := range map[string]struct {
		make    func(path string)
		records int
	}{
		"missing":         {func(string) {}, 0},
		"earlier version": {func(path string) { earlier(t, path, map[string]string{"a": "ann", "b": "bob"}) }, 2},
		"this version": {func(path string) {
			earlier(t, path, map[string]string{"a": "ann"})
			s, err := bolt.Open(path, nil)
			require.OK(t, err)
			require.OK(t, s.Close())
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			temporary, folder := t.TempDir(), t.TempDir()
			t.Setenv("TMPDIR", temporary)
			path := filepath.Join(folder, "approvals.db")
			tt.make(path)
			aged := time.Now().Add(-time.Hour).Truncate(time.Second)
			before, _ := os.ReadFile(path)
			beside := len(names(t, folder))
			_ = os.Chtimes(path, aged, aged) // fails for a missing file
			first, err := bolt.View(path, nil)
			require.OK(t, err)
			second, err := bolt.View(path, &store.Options{LockWait: time.Millisecond})
			require.OK(t, err)
			for _, s := range []*bolt.Store{first, second} {
				if all, err := s.Records(t.Context(), "s"); err != nil || len(all) != tt.records {
					t.Errorf("%d records, %v; want %d", len(all), err, tt.records)
				}
				require.OK(t, s.Close())
			}
			after, _ := os.ReadFile(path)
			info, err := os.Stat(path)
			if string(before) != string(after) || err == nil && !info.ModTime().Equal(aged) {
				t.Error("a view changed the file")
			}
			if left := names(t, temporary); len(left) > 0 || len(names(t, folder)) != beside {
				t.Errorf("a view left %q, %q", left, names(t, folder))
			}
		})
	}
}

func TestViewRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "approvals.db")
	s, err := bolt.Open(path, nil)
	require.OK(t, err)
	if _, err := bolt.View(path, &store.Options{LockWait: time.Millisecond}); !errors.Is(err, bolt.ErrHeld) {
		t.Errorf("View of an open file: %v", err)
	}
	require.OK(t, s.Close())
	v, err := bolt.View(path, nil)
	require.OK(t, err)
	if _, err := bolt.Open(path, &store.Options{LockWait: time.Millisecond}); !errors.Is(err, bolt.ErrHeld) {
		t.Errorf("Open of a viewed file: %v", err)
	}
	if _, err := v.Put(t.Context(), approval.Record{Server: "s", Tool: "a"}, nil); err == nil {
		t.Error("Put into a view returns no error")
	}
	require.OK(t, v.Close())
	require.OK(t, os.WriteFile(path, []byte("no database"), 0o600))
	if _, err := bolt.View(path, nil); !errors.Is(err, bolt.ErrDamaged) {
		t.Errorf("View of a file that is no database: %v", err)
	}
}
