package repocheck

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/portcullis-mcp/portcullis/test/golden"
)

// A stop is a page of the reading path in docs/README.md.
type stop struct{ step, title, file, about string }

const (
	pathHead = "[Documentation](README.md) › "
	pathFoot = "**Next:** "
)

// readPath returns the pages of the path, in order, and the pages under Reference in
// docs/README.md.
func readPath(t *testing.T) (stops []stop, reference map[string]bool) {
	t.Helper()
	entry := regexp.MustCompile(`^- \[([^\]]+)\]\(([a-z0-9_.-]+)\): (.+)$`)
	reference = map[string]bool{"README.md": true}
	step := ""
	for line := range strings.Lines(pages(t)["docs/README.md"]) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "## "); ok {
			step = name
		}
		m := entry.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, "- ") && m == nil:
			t.Errorf("docs/README.md: want - [Title](file): what it is about\n%s", line)
		case m == nil:
		case step == "Reference":
			reference[m[2]] = true
		default:
			stops = append(stops, stop{step, m[1], m[2], m[3]})
		}
	}
	return stops, reference
}

// A reader who starts at the top reaches every page: each page begins with its position, and ends
// with the next page. With -update the test writes both lines.
func TestPath(t *testing.T) {
	stops, named := readPath(t)
	all := pages(t)
	for i, s := range stops {
		if named[s.file] {
			t.Errorf("docs/README.md names %s twice", s.file)
		}
		named[s.file] = true
		page, ok := all["docs/"+s.file]
		if !ok {
			t.Errorf("docs/README.md names %s, which does not exist", s.file)
			continue
		}
		next := stop{title: "the path", file: "README.md", about: "all pages"}
		if i+1 < len(stops) {
			next = stops[i+1]
		}
		golden.Check(t, filepath.Join(root, "docs", s.file), onPath(page, s, next))
	}
	for path := range all {
		if name, ok := strings.CutPrefix(path, "docs/"); ok && !strings.Contains(name, "/") && !named[name] {
			t.Errorf("docs/README.md does not name %s: add it to a step, or under Reference, as - [Title](%s): what it is about\n"+
				"and run go test ./test/repocheck -run TestPath -update", name, name)
		}
	}
}

// onPath returns a page with the lines for its position and the next page.
func onPath(page string, s, next stop) string {
	lines := strings.Split(strings.TrimSpace(page), "\n")
	if len(lines) > 2 && strings.HasPrefix(lines[2], pathHead) {
		lines = append(lines[:1], lines[3:]...)
	}
	if last := len(lines) - 1; strings.HasPrefix(lines[last], pathFoot) {
		lines = lines[:last]
	}
	body := strings.TrimSpace(strings.Join(lines[1:], "\n"))
	return fmt.Sprintf("%s\n\n%s%s\n\n%s\n\n%s[%s](%s): %s.\n", lines[0], pathHead, s.step, body, pathFoot, next.title, next.file, next.about)
}

// The target of each link exists, including the heading.
func TestLinks(t *testing.T) {
	all := pages(t)
	link := regexp.MustCompile(`\]\(([^)#\s:]*)(#[^)\s]+)?\)`)
	seen := 0
	for path, text := range all {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			seen++
			to := path
			if m[1] != "" {
				to = filepath.ToSlash(filepath.Join(filepath.Dir(path), m[1]))
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(to))); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, m[1])
				continue
			}
			if page, ok := all[to]; ok && m[2] != "" && !anchors(page)[m[2]] {
				t.Errorf("%s links to %s%s, but the page has no such heading", path, m[1], m[2])
			}
		}
	}
	if seen < 100 {
		t.Errorf("the pages have %d links: the pattern is broken", seen)
	}
}

// anchors returns the anchors that GitHub creates for the headings of a page.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(page, -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])
		all["#"+name] = true
	}
	return all
}
