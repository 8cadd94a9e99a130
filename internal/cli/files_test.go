package cli

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestFilesAreReplacedWhole(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "a.json"), filepath.Join(dir, "link.json")
	require.OK(t, os.WriteFile(path, []byte("one"), 0o640))
	require.OK(t, os.Symlink(path, link))
	now := time.Date(2026, 11, 21, 21, 0, 0, 0, time.UTC)
	for _, want := range []string{".bak-20261121T210000Z", ".bak-20261121T210000Z-2"} {
		kept, err := backUp(path, now, 0o600)
		data, readErr := os.ReadFile(kept)
		info, statErr := os.Stat(kept)
		if err != nil || readErr != nil || statErr != nil || kept != path+want ||
			string(data) != "one" ||
			info.Mode().Perm() != 0o600 {
			t.Errorf("%s, %v: %q", kept, err, data)
		}
	}
	require.OK(t, replaceFile(link, []byte("two"), 0o600))
	data, err := os.ReadFile(path)
	info, statErr := os.Lstat(link)
	if err != nil || statErr != nil || string(data) != "two" || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%q, %v, %v", data, err, info.Mode())
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := createFile(path, []byte("three"), 0o600); err == nil {
		t.Error("createFile replaced an existing file")
	}
	left, err := filepath.Glob(filepath.Join(dir, ".tmp-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestAgree(t *testing.T) {
	for typed, want := range map[string]bool{"y\n": true, "YES\n": true, "n\n": false, "\n": false, "": false, "yes please\n": false} {
		said := new(strings.Builder)
		env := &environment{stdin: strings.NewReader(typed), stderr: said, terminal: true}
		if got, err := env.agree("Approve 3 tools?", ""); got != want || err != nil || said.String() != "Approve 3 tools? [y/N] " {
			t.Errorf("%q: %v, %v, %q", typed, got, err, said)
		}
	}
	if _, err := quiet().agree("Approve?", "add --yes"); err == nil || !strings.Contains(err.Error(), "add --yes") {
		t.Errorf("no terminal: %v", err)
	}
}

// A start removes the temporary files that a killed program left, and no other file.
func TestStartRemovesLeftOver(t *testing.T) {
	dir, old := t.TempDir(), time.Now().Add(-2*time.Hour)
	programtest.WriteConfig(t, dir, `{"mcpServers": {}}`)
	own := []string{".tmp-serve.json-12", ".tmp-serve.json-" + rand.Text(), "config/.tmp-mcp_config.json-3", "backups/.tmp-approvals-20260101T000000Z.db-4"}
	others := []string{".tmp-mine", ".tmp-serve.json-x", "config/.tmp-notes-3", ".tmp-seal.key-5"}
	require.OK(t, os.Mkdir(filepath.Join(dir, folder.BackupFolder), 0o700))
	for _, name := range slices.Concat(own, others) {
		path := filepath.Join(dir, name)
		require.OK(t, os.WriteFile(path, nil, 0o600))
		if name != ".tmp-seal.key-5" { // another process may be writing it
			require.OK(t, os.Chtimes(path, old, old))
		}
	}
	require.OK(t, start(t, dir).stop())
	for _, name := range own {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was not removed", name)
		}
	}
	for _, name := range others {
		_, err := os.Stat(filepath.Join(dir, name))
		require.OK(t, err)
	}
}
