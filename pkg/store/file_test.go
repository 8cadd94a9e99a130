package store_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// content returns a function that writes a text and then returns err.
func content(s string, err error) func(*os.File) error {
	return func(f *os.File) error {
		_, bad := f.WriteString(s)
		return errors.Join(bad, err)
	}
}

func TestWriteFile(t *testing.T) {
	errCut := errors.New("the answer was cut off")
	for name, test := range map[string]struct {
		before string // "": there is no file
		place  store.Place
		fails  error
		want   error
		after  string
	}{
		"a new file":                          {"", store.Create, nil, nil, "new"},
		"a new file by replace":               {"", store.Replace, nil, nil, "new"},
		"a replaced file":                     {"old", store.Replace, nil, nil, "new"},
		"an existing file is unchanged":       {"old", store.Create, nil, fs.ErrExist, "old"},
		"a write that fails":                  {"", store.Create, errCut, errCut, ""},
		"a write that fails over an old file": {"old", store.Replace, errCut, errCut, "old"},
		"a full disk":                         {"old", store.Replace, syscall.ENOSPC, syscall.ENOSPC, "old"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "a.json")
			if test.before != "" {
				require.OK(t, os.WriteFile(path, []byte(test.before), 0o600))
			}
			err := store.WriteFile(path, 0o640, test.place, content("new", test.fails))
			if !errors.Is(err, test.want) {
				t.Errorf("error = %v, want %v", err, test.want)
			}
			data, err := os.ReadFile(path)
			if string(data) != test.after || err != nil && test.after != "" {
				t.Errorf("the file has %q (%v), want %q", data, err, test.after)
			}
			if test.after == "new" && runtime.GOOS != "windows" {
				info, err := os.Stat(path)
				require.OK(t, err)
				if info.Mode().Perm() != 0o640 {
					t.Errorf("the mode is %v", info.Mode())
				}
			}
			if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
				t.Errorf("temporary files left: %q (%v)", left, err)
			}
		})
	}
}

// During the write, the temporary file can be read by its name, and the file has its old content.
func TestWriteFileIsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	require.OK(t, os.WriteFile(path, []byte("old"), 0o600))
	require.OK(t, store.WriteFile(path, 0o600, store.Replace, func(f *os.File) error {
		_, err := f.WriteString("new")
		require.OK(t, err)
		temp, err := os.ReadFile(f.Name())
		require.OK(t, err)
		current, err := os.ReadFile(path)
		if err != nil || string(current) != "old" || string(temp) != "new" {
			t.Errorf("the file has %q (%v), the temporary file has %q", current, err, temp)
		}
		if name := filepath.Base(f.Name()); !strings.HasPrefix(name, ".tmp-a.json-") {
			t.Errorf("the temporary file is %q", name)
		}
		return nil
	}))
}

// An error names the requested file, because nobody knows the temporary file.
func TestWriteFileNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	path, folder := filepath.Join(dir, "a.json"), filepath.Join(dir, "folder")
	require.OK(t, os.WriteFile(path, nil, 0o600))
	require.OK(t, os.MkdirAll(filepath.Join(folder, "full"), 0o700))
	full := func(f *os.File) error { return &fs.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC} }
	for name, err := range map[string]error{
		"exists":  store.WriteFile(path, 0o600, store.Create, content("x", nil)),
		"folder":  store.WriteFile(folder, 0o600, store.Replace, content("x", nil)),
		"no room": store.WriteFile(path, 0o600, store.Replace, full),
	} {
		e, ok := errors.AsType[*fs.PathError](err)
		if !ok || filepath.Dir(e.Path) != dir || strings.Contains(err.Error(), ".tmp-") {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := errors.New("another file is missing")
	err := store.WriteFile(path, 0o600, store.Replace, func(*os.File) error { return other })
	if !errors.Is(err, other) {
		t.Errorf("error = %v, want %v", err, other)
	}
	err = store.WriteFile(filepath.Join(dir, "none", "a"), 0o600, store.Create, content("x", nil))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a missing folder: %v", err)
	}
}
