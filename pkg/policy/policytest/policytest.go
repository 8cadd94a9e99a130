// Package policytest lends the ten policies of pkg/policy/testdata to the tests and
// benchmarks of other rooms.
package policytest

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Rules returns the rules of the ten policies in one text, but for those that deny everything.
func Rules(t testing.TB) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	files, err := filepath.Glob(filepath.Join(filepath.Dir(here), "..", "testdata", "policies", "*.cedar"))
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
		all.WriteString(strings.ReplaceAll(string(src), "@id(", "@was(")) // ids may not come twice
	}
	return all.String()
}
