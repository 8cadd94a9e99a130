// Package server tests the files and examples of docs/server.md with the programs that read them:
// systemd, Caddy, nginx and Compose. A test is skipped if its program is not installed.
package server

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestMain(m *testing.M) { os.Exit(programtest.Main(m.Run)) }

// program returns the path of an installed program, or skips the test.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("not run: %s is not installed", name)
	}
	return path
}

// examples returns the code blocks of docs/server.md in a language.
func examples(t *testing.T, language string) (all []string) {
	t.Helper()
	page, err := os.ReadFile(repo.Path("docs/server.md"))
	require.OK(t, err)
	block := regexp.MustCompile("(?s)\n```" + language + "\n(.*?)```\n")
	for _, m := range block.FindAllSubmatch(page, -1) {
		all = append(all, string(m[1]))
	}
	return all
}

// change replaces a text that must occur.
func change(t *testing.T, text, from, to string) string {
	t.Helper()
	if !strings.Contains(text, from) {
		t.Fatalf("the example has no %q:\n%s", from, text)
	}
	return strings.ReplaceAll(text, from, to)
}

// write writes a file into a new folder, and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
