package testclients

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// Each block of expected failures has its reason above it.
func TestExpectedFailures(t *testing.T) {
	lists, err := filepath.Glob(filepath.Join(dir(), "conformance", "*.yaml"))
	require.OK(t, err)
	if len(lists) < 4 {
		t.Fatalf("found %d lists: the pattern is broken", len(lists))
	}
	for _, path := range lists {
		b, err := os.ReadFile(path)
		require.OK(t, err)
		name := filepath.Base(path)
		side := "server"
		if strings.HasPrefix(name, "client-") {
			side = "client"
		}
		_, entries, ok := strings.Cut(string(b), "\n"+side+":")
		switch {
		case !ok:
			t.Errorf("%s: no list for a %s", name, side)
		case strings.TrimSpace(entries) == "[]":
		default:
			if n := checkReasons(t, name, entries); n == 0 {
				t.Errorf("%s has an empty list without []", name)
			}
		}
	}
}

// checkReasons checks that each block of entries starts with its reason, and returns the number of
// entries.
func checkReasons(t *testing.T, name, entries string) (n int) {
	for block := range strings.SplitSeq(strings.TrimSpace(entries), "\n\n") {
		for i, line := range strings.Split(block, "\n") {
			switch line = strings.TrimSpace(line); {
			case strings.HasPrefix(line, "#"):
			case i == 0:
				t.Errorf("%s: %q has no reason above it", name, line)
			case !strings.HasPrefix(line, "- ") || strings.Count(line, ":") != 1:
				t.Errorf("%s: %q is not one check of one scenario", name, line)
			default:
				n++
			}
		}
	}
	return n
}

// Every machine runs the pinned versions.
func TestPinnedVersions(t *testing.T) {
	var manifest struct{ Dependencies, OptionalDependencies map[string]string }
	read(t, "package.json", &manifest)
	if len(manifest.Dependencies) == 0 {
		t.Fatal("package.json names no dependencies")
	}
	for _, deps := range []map[string]string{manifest.Dependencies, manifest.OptionalDependencies} {
		for name, version := range deps {
			if strings.ContainsAny(version, "^~*x> |") {
				t.Errorf("%s is at %q, which is a range", name, version)
			}
		}
	}
	for _, name := range []string{"requirements.txt", "requirements-mcpuse.txt"} {
		requirements, err := os.ReadFile(filepath.Join(dir(), name))
		require.OK(t, err)
		for line := range strings.Lines(string(requirements)) {
			if !strings.HasPrefix(line, "#") && strings.Count(line, "==") != 1 {
				t.Errorf("%s: %q is not one version of one package", name, line)
			}
		}
	}
	lock := read(t, "package-lock.json", &struct{}{})
	if bytes.Contains(lock, []byte(`"resolved"`)) {
		t.Error("package-lock.json contains addresses of a private registry")
	}
	if !bytes.Contains(lock, []byte(`"integrity"`)) {
		t.Error("package-lock.json contains no hashes")
	}
}

func read(t *testing.T, name string, v any) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir(), name))
	require.OK(t, err)
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return b
}
