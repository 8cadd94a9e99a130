package secret_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The values of a file stay the same when they are written and read again. No error contains a key.
func FuzzReadFile(f *testing.F) {
	f.Add("new 2026-11-22T22:00:00Z\nold\n")
	f.Add("new\nold 2026-11-22T22:00:00+02:00\nmore")
	f.Add("\n\n")
	f.Add(" x y")
	path := filepath.Join(f.TempDir(), "k")
	const example = "2026-11-22T22:00:00Z" // the error shows this example
	f.Fuzz(func(t *testing.T, data string) {
		require.OK(t, os.WriteFile(path, []byte(data), 0o600))
		v, err := secret.ReadFile(path)
		if err != nil {
			if key, _, _ := strings.Cut(data, " "); len(key) > 16 && !strings.Contains(example, key) && strings.Contains(err.Error(), key) {
				t.Errorf("the error shows the key: %v", err)
			}
			return
		}
		if v.Current.Text.Reveal() == "" || v.Previous.Text.Reveal() == "" {
			return // nothing to write
		}
		require.OK(t, os.WriteFile(path, []byte(secret.FileText(v)), 0o600))
		again, err := secret.ReadFile(path)
		if err != nil || !again.Current.Text.Equal(v.Current.Text) || !again.Previous.Text.Equal(v.Previous.Text) {
			t.Errorf("the values changed after a write and a read: %v", err)
		}
	})
}
