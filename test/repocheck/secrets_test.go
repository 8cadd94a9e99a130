package repocheck

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// credential matches real credentials. Tests use made-up credentials of other forms, or create them
// at run time.
var credential = regexp.MustCompile(`AKIA[0-9A-Z]{16}|ASIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36}|xox[abp]-[0-9A-Za-z-]{20}|-----BEGIN [A-Z ]*PRIVATE KEY-----`)

func TestNoFileHoldsACredential(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); p != root && (name == "node_modules" || name == "dist" || strings.HasPrefix(name, ".") && name != ".ci") {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() { // such as a link to installed tools
			return nil
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		seen++
		if found := credential.Find(data); found != nil && filepath.Base(p) != "secrets_test.go" {
			t.Errorf("%s contains a possible credential: %.12s…", p, found)
		}
		return nil
	})
	require.OK(t, err)
	if seen < 100 {
		t.Fatalf("read %d files: the walk is broken", seen)
	}
}
