// Package policytest gives tests and benchmarks of other packages the ten policies of
// pkg/rules/policy/testdata.
package policytest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/repo"
)

// Rules returns the rules of the ten policies in one text, without the rules that deny everything.
func Rules(t testing.TB) string {
	t.Helper()
	files, err := filepath.Glob(repo.Path("pkg/rules/policy/testdata/policies/*.cedar"))
	if err != nil || len(files) != 10 {
		t.Fatalf("%d policies, %v", len(files), err)
	}
	var all strings.Builder
	for _, file := range files {
		if strings.Contains(file, "conflicting") || strings.Contains(file, "everything") {
			continue
		}
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(strings.ReplaceAll(string(src), "@id(", "@was(")) // ids may repeat, but not in one text
	}
	return all.String()
}
