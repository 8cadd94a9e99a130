package dir_test

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A killed writer leaves its temporary file. The first write into the folder removes only that
// file.
func TestPutSweeps(t *testing.T) {
	root := t.TempDir()
	left, other, editors := ".tmp-"+rand.Text(), ".tmp-"+rand.Text(), ".tmp-by-an-editor"
	for _, name := range []string{"catalog/" + left, "config/" + other, "catalog/" + editors, left} {
		path := filepath.Join(root, filepath.FromSlash(name))
		require.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.OK(t, os.WriteFile(path, []byte("half"), 0o600))
	}
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return err == nil
	}
	s := dir.New(root)
	if _, err := s.Put(t.Context(), "catalog/a", []byte("whole"), ""); err != nil {
		t.Fatal(err)
	}
	if there("catalog/" + left) {
		t.Error("the file of a killed writer is still there")
	}
	if !there("config/"+other) || !there("catalog/"+editors) || !there(left) {
		t.Error("a file of another folder, or of another program, is gone")
	}
	if _, err := s.Put(t.Context(), "b", []byte("whole"), ""); err != nil || there(left) {
		t.Errorf("in the root folder: %v, still there %v", err, there(left))
	}
}
