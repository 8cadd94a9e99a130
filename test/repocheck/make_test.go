package repocheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// Each target that a developer needs has its own line in the help, and each target in the documents
// exists.
func TestMakeHelpListsWhatCanBeMade(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "make", "--no-print-directory", "help")
	cmd.Dir = root
	out, err := cmd.Output()
	require.OK(t, err)
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^  make ([a-z-]+) +\S`).FindAllStringSubmatch(string(out), -1) {
		listed[m[1]] = true
	}
	for _, target := range strings.Fields("help run test check lint fmt bench update") {
		if !listed[target] {
			t.Errorf("make help does not list %s:\n%s", target, out)
		}
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.OK(t, err)
	made := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllSubmatch(makefile, -1) {
		made[string(m[1])] = true
	}
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.OK(t, err)
	for _, path := range append(docs, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(path)
		require.OK(t, err)
		for _, m := range regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)").FindAllSubmatch(text, -1) {
			if !made[string(m[1])] {
				t.Errorf("%s says make %s, which the Makefile does not have", path, m[1])
			}
		}
	}
}
