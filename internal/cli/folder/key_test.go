package folder

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestSealKey(t *testing.T) {
	t.Run("is made once, for its user alone", func(t *testing.T) {
		dir := t.TempDir()
		key, err := sealKey(dir, false)
		require.OK(t, err)
		info, err := os.Stat(filepath.Join(dir, SealFile))
		if err != nil || info.Mode() != 0o600 || len(key) < seal.MinKey {
			t.Fatalf("%v, %v, %d bytes", info, err, len(key))
		}
		again, err := sealKey(dir, false)
		if err != nil || !bytes.Equal(key, again) {
			t.Errorf("the next start: error %v, same key %v", err, bytes.Equal(key, again))
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
			t.Errorf("the folder holds %v, %v", files, err)
		}
	})
	t.Run("many programs at once make one key", func(t *testing.T) {
		dir := t.TempDir()
		var wg sync.WaitGroup
		keys := make([][]byte, 16)
		for i := range keys {
			wg.Go(func() {
				var err error
				if keys[i], err = sealKey(dir, false); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for _, k := range keys {
			if !bytes.Equal(k, keys[0]) {
				t.Fatal("two programs have different keys")
			}
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
			t.Errorf("the folder holds %v, %v", files, err)
		}
	})
	for name, spoil := range map[string]func(path string) error{
		"that others could read": func(path string) error { return os.Chmod(path, 0o640) },
		"that is too short":      func(path string) error { return os.WriteFile(path, []byte("abcd\n"), 0o600) },
		"that is empty":          func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"that is a folder": func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o700)
		},
		"that is a link to another folder": func(path string) error {
			if err := os.Rename(path, path+".old"); err != nil {
				return err
			}
			return os.Symlink(path+".old", path)
		},
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, SealFile)
			key, err := sealKey(dir, false)
			require.OK(t, err)
			require.OK(t, spoil(path))
			got, err := sealKey(dir, false)
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "remove it") {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			if strings.Contains(err.Error(), string(key)) {
				t.Error("the error contains the key")
			}
		})
	}
	t.Run("in no folder is refused", func(t *testing.T) {
		if _, err := sealKey(filepath.Join(t.TempDir(), "none"), false); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v", err)
		}
	})
}
