// Package golden compares the output of a test with a file in the repository.
//
// `go test -update` writes the file instead. `make update` runs it in every package that imports
// this package. Read the difference before you commit it.
package golden

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/test/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Check compares got with the file at path, or writes the file if the tests run with -update.
func Check(t testing.TB, path, got string) {
	t.Helper()
	if *update {
		require.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.OK(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.OK(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", path, diff)
	}
}

// JSON is [Check] for a JSON value. The file contains the value indented, with its keys in order.
func JSON(t testing.TB, path, got string) {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(got), "", "  "); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	Check(t, path, b.String()+"\n")
}
