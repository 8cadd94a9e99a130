package repocheck

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A helper is what one place does for the whole repository.
type helper struct {
	name    string
	again   string   // a pattern of code that does it again
	allowed []string // folders and files that may
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
		"pkg/store/bolt/copy.go",        // a copy that is streamed and removed
		"pkg/store/bolt/convert.go",     // an old copy gets another name
		"internal/cli/approvals.go",     // a damaged file gets another name
		"internal/cli/restorebackup.go", // as above, and back
	}, "store.WriteFile"},
}

// TestOneOfEachHelper checks that code calls the helpers of the repository and writes none again.
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
				t.Errorf("%s:%d writes a %s of its own: call %s", f.path, line, h.name, h.instead)
			}
		}
		if found == 0 {
			t.Errorf("no file has a %s: the pattern is broken", h.name)
		}
	}
}
