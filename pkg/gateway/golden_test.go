package gateway_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden holds an answer to the file of its name. Answers are compact; they are
// indented in the file, so that a change can be read. Key order is part of it.
func golden(t *testing.T, name, answer string) {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(answer), "", "  "); err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	b.WriteByte('\n')
	path := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", path, diff)
	}
	if bytes.ContainsAny([]byte(answer), "\n") {
		t.Error("the answer is not compact JSON")
	}
}
