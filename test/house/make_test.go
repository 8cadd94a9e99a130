package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What a developer needs is a target with a line of its own in the help, and what the
// documents say can be made can be made.
func TestMakeHelpListsWhatCanBeMade(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "make", "--no-print-directory", "help")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllSubmatch(makefile, -1) {
		made[string(m[1])] = true
	}
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(docs, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)").FindAllSubmatch(text, -1) {
			if !made[string(m[1])] {
				t.Errorf("%s says make %s, which the Makefile does not have", path, m[1])
			}
		}
	}
}
