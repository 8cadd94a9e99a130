package object_test

import (
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
)

// FuzzCheckKey checks that each key that CheckKey accepts is a clean path that stays in its folder,
// without a backslash, a null byte or a name that starts with a dot.
func FuzzCheckKey(f *testing.F) {
	for _, key := range []string{"config/mcp_config.json", "../a", "a/../b", "/a", `a\..\b`, "a//b", "a/.", "é", "\x00", ""} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if object.CheckKey(key) != nil {
			return
		}
		if path.Clean(key) != key || !filepath.IsLocal(key) || strings.ContainsAny(key, "\\\x00") || strings.Contains("/"+key, "/.") {
			t.Errorf("%q passes", key)
		}
	})
}
