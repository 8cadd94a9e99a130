package repocheck

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A helper is a function for the whole repository, and a pattern of code that repeats it.
type helper struct {
	name    string
	again   string   // pattern of code that repeats the helper
	allowed []string // folders and files that may repeat the helper
	instead string   // what to call
}

const secretWords = `passw|secret|token|api.?key|credential`

var helpers = []helper{
	{"cursor", `(?i)cursor[^\n]*\bbase64\.|\bbase64\.[^\n]*cursor`,
		[]string{"pkg/base/text/cursor.go"}, "text.NewCursor and text.ReadCursor"},
	{"list of names of secrets",
		`(?i)(` + secretWords + `)\w*\|[^\n"` + "`" + `]*(` + secretWords + `)`,
		[]string{"pkg/base/secret/", "pkg/rules/finding/"}, "secret.Looks"},
	{"whole file", `\bos\.CreateTemp\(|\.Rename\(`, []string{
		"pkg/store/file.go",
		"pkg/store/bolt/copy.go",        // streams a copy and removes it
		"pkg/store/bolt/convert.go",     // renames an old copy
		"internal/cli/approvals.go",     // renames a damaged file
		"internal/cli/restorebackup.go", // renames files, and back
	}, "store.WriteFile"},
}

// TestOneOfEachHelper checks that code calls the helpers of the repository and does not repeat
// them.
func TestOneOfEachHelper(t *testing.T) {
	for _, h := range helpers {
		again, found := regexp.MustCompile(h.again), 0
		for _, f := range files(t) {
			if f.test || testOnly(f.dir) {
				continue
			}
			at := again.FindIndex(f.src)
			if at == nil {
				continue
			}
			found++
			in := func(place string) bool { return strings.HasPrefix(f.path, place) }
			if !slices.ContainsFunc(h.allowed, in) {
				line := 1 + strings.Count(string(f.src[:at[0]]), "\n")
				t.Errorf("%s:%d repeats the helper %s: call %s", f.path, line, h.name, h.instead)
			}
		}
		if found == 0 {
			t.Errorf("no file has the helper %s: the pattern is broken", h.name)
		}
	}
}
