package golden

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// Parts is [Check] for the generated parts of a page, by name. In the page, a part is between the
// lines <!-- begin NAME --> and <!-- end -->. The page must have each part, and no other.
func Parts(t testing.TB, path string, parts map[string]string) {
	t.Helper()
	page, err := os.ReadFile(path)
	require.OK(t, err)
	found := map[string]bool{}
	text := part.ReplaceAllStringFunc(string(page), func(s string) string {
		name := part.FindStringSubmatch(s)[1]
		got, ok := parts[name]
		if !ok || found[name] {
			t.Errorf("%s has the part %q, which is unknown or there twice: remove it", path, name)
			return s
		}
		found[name] = true
		return "<!-- begin " + name + " -->\n\n" + strings.TrimSpace(got) + "\n\n<!-- end -->"
	})
	for name := range parts {
		if !found[name] {
			t.Errorf("%s lacks the part %q: add the lines <!-- begin %[2]s --> and <!-- end -->",
				path, name)
		}
	}
	Check(t, path, text)
}

var part = regexp.MustCompile(`(?s)<!-- begin ([^\n]*?) -->.*?<!-- end -->`)

// Rows returns the cells of the first table of a page that starts in the line of a text, or below.
func Rows(t testing.TB, page, text string) [][]string {
	t.Helper()
	_, rest, ok := strings.Cut("\n"+page, text)
	lines := strings.Split(text+rest, "\n")
	for len(lines) > 0 && !strings.HasPrefix(lines[0], "|") {
		lines = lines[1:]
	}
	if !ok || len(lines) < 3 {
		t.Fatalf("the page has no table at %q", text)
	}
	var all [][]string
	for _, line := range lines[2:] {
		if !strings.HasPrefix(line, "|") {
			break
		}
		var cells []string
		line = strings.ReplaceAll(line, `\|`, "\x00")
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(strings.ReplaceAll(cell, "\x00", "|")))
		}
		all = append(all, cells)
	}
	return all
}

// Wrap returns a paragraph of a page in lines of at most 100 columns.
func Wrap(s string) string {
	var out strings.Builder
	n := 0
	for _, word := range strings.Fields(s) {
		width := utf8.RuneCountInString(word)
		switch {
		case n == 0:
		case n+1+width > 100:
			out.WriteByte('\n')
			n = 0
		default:
			out.WriteByte(' ')
			n++
		}
		out.WriteString(word)
		n += width
	}
	return out.String() + "\n"
}
