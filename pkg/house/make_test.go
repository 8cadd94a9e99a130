package house

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What a developer needs is a target with a line of its own in the help.
func TestMakeHelpListsWhatCanBeMade(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "make", "--no-print-directory", "help")
	cmd.Dir = filepath.Join("..", "..")
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
}
