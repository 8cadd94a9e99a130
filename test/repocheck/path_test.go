package repocheck

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A stop is a page of the reading path in docs/README.md, or a page under Reference.
type stop struct{ step, title, file, kind, about string }

const (
	pathHead  = "[Documentation](README.md) › "
	pathFoot  = "**Next:** "
	reference = "Reference" // the step whose pages can be read in any order

	maxPageLines = 300 // of a page that is read from top to bottom
	maxLong      = 1   // percent of the sentences that have more than longWords words
	longWords    = 32
)

// An entry of docs/README.md names a page and its kind. Schemas and folders have no kind.
var (
	pageEntry = regexp.MustCompile(
		`^- \[([^\]]+)\]\(([a-z0-9_-]+\.md)\) \((tutorial|how-to|reference|explanation)\): (.+)$`,
	)
	otherEntry = regexp.MustCompile(`^- \[[^\]]+\]\((design|[a-z_.]+\.json)\): .+$`)
	kinds      = map[string]string{
		"tutorial": "Tutorial", "how-to": "How-to", "reference": "Reference", "explanation": "Explanation",
	}
)

// readPath returns the pages that docs/README.md names, in order.
func readPath(t *testing.T) (path []stop) {
	t.Helper()
	step := ""
	for line := range strings.Lines(pages(t)["docs/README.md"]) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "## "); ok {
			step = name
		}
		if m := pageEntry.FindStringSubmatch(line); m != nil {
			path = append(path, stop{step, m[1], m[2], kinds[m[3]], m[4]})
		} else if strings.HasPrefix(line, "- ") && !otherEntry.MatchString(line) {
			t.Errorf("docs/README.md: want - [Title](file) (KIND): what it is about\n%s\n"+
				"KIND is tutorial, how-to, reference or explanation", line)
		}
	}
	return path
}

// A reader who starts at the top reaches every page: each page begins with its position and kind,
// and a page of a numbered step ends with the next page. With -update the test writes both lines.
func TestPath(t *testing.T) {
	all, path := pages(t), readPath(t)
	named := map[string]bool{"README.md": true}
	for i, s := range path {
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
		if i+1 < len(path) && path[i+1].step != reference {
			next = path[i+1]
		}
		golden.Check(t, filepath.Join(root, "docs", s.file), onPath(page, s, next))
	}
	for path := range all {
		if name, ok := strings.CutPrefix(path, "docs/"); ok && !strings.Contains(name, "/") &&
			!named[name] {
			t.Errorf(
				"docs/README.md does not name %s: add it to a step, or under Reference, as - [Title](%s) (KIND): what it is about\n"+
					"and run go test ./test/repocheck -run TestPath -update",
				name,
				name,
			)
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
	page = fmt.Sprintf("%s\n\n%s%s · %s\n\n%s\n", lines[0], pathHead, s.step, s.kind, body)
	if s.step != reference {
		page += fmt.Sprintf("\n%s[%s](%s): %s.\n", pathFoot, next.title, next.file, next.about)
	}
	return page
}

// A how-to or a tutorial has a task as its title, and a reader can read it to its end. A reference
// is for search, so it may be long.
func TestKinds(t *testing.T) {
	noTask := regexp.MustCompile(`^# (The|A|An|How|What|Why|[A-Z][a-z]+ing)\b`)
	all := pages(t)
	for path, page := range all {
		n := strings.Count(page, "\n")
		if strings.HasPrefix(path, "docs/design/") && n > maxPageLines {
			t.Errorf("%s has %d lines, want <= %d: move a part to a page of its own", path, n, maxPageLines)
		}
	}
	for _, s := range readPath(t) {
		page := all["docs/"+s.file]
		if n := strings.Count(page, "\n"); s.kind != "Reference" && n > maxPageLines {
			t.Errorf("docs/%s is %s and has %d lines, want <= %d: move a part to a page of its own",
				s.file, s.kind, n, maxPageLines)
		}
		task := s.kind == "How-to" || s.kind == "Tutorial"
		if title, _, _ := strings.Cut(page, "\n"); task && noTask.MatchString(title) {
			t.Errorf("docs/%s is %s, but its title is no task: %s", s.file, s.kind, title)
		}
	}
}

// Most sentences of the pages for users are short.
func TestSentencesOfPages(t *testing.T) {
	var long []string
	n := 0
	for path, text := range pages(t) {
		dir := filepath.Dir(path)
		if dir != "." && dir != "docs" && dir != "docs/design" {
			continue
		}
		markdownSentences(path, text, func(p string, line int, _, text string) {
			for _, s := range split(text) {
				words := len(strings.Fields(s))
				if words > 0 {
					n++
				}
				if words > longWords {
					long = append(long, fmt.Sprintf("%s:%d: %d words: %s", p, line, words, s))
				}
			}
		})
	}
	if n < 5000 {
		t.Fatalf("the pages have %d sentences: the splitter is broken", n)
	}
	if 100*len(long) > maxLong*n {
		slices.Sort(long)
		t.Errorf("%d of %d sentences have more than %d words, want <= %d %%:\n%s",
			len(long), n, longWords, maxLong, strings.Join(long, "\n"))
	}
}

// A reader finds the page for each task with two clicks from README.md, and the line of the last
// link has a word of the task.
func TestTwoClicks(t *testing.T) {
	all := pages(t)
	for _, task := range []struct{ what, page, word string }{
		{"connect a client", "docs/connect.md", "client"},
		{"write a rule", "docs/write-policy.md", "rule"},
		{"find a setting", "docs/settings.md", "setting"},
		{"find what a metric means", "docs/metrics.md", "metric"},
		{"report a vulnerability", "SECURITY.md", "vulnerability"},
		{"know why a tool is locked", "docs/troubleshooting.md", "locked"},
		{"see who called what", "docs/audit.md", "called"},
		{"stop an agent", "docs/stop.md", "stop an agent"},
		{"rotate a key", "docs/operate.md", "rotate a key"},
		{"know what it costs", "docs/cost.md", "cost"},
	} {
		if !leadsTo(all, "README.md", task.page, task.word, 2) {
			t.Errorf(
				"%s: README.md does not lead to %s in two clicks, or the line of the link lacks %q",
				task.what,
				task.page,
				task.word,
			)
		}
	}
}

func leadsTo(all map[string]string, from, to, word string, clicks int) bool {
	for line := range strings.Lines(all[from]) {
		for _, m := range link.FindAllStringSubmatch(line, -1) {
			next := target(from, m[1])
			if next == to && strings.Contains(strings.ToLower(line), word) ||
				clicks > 1 && next != from && leadsTo(all, next, to, word, clicks-1) {
				return true
			}
		}
	}
	return false
}

var link = regexp.MustCompile(`\]\(([^)#\s:]*)(#[^)\s]+)?\)`)

// target returns the path of the file that a link of a page names.
func target(page, link string) string {
	if link == "" {
		return page
	}
	return filepath.ToSlash(filepath.Join(filepath.Dir(page), link))
}

// The target of each link and image exists, including the heading. A page shows each image.
func TestLinks(t *testing.T) {
	all := pages(t)
	seen := map[string]bool{}
	for path, text := range all {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			to := target(path, m[1])
			seen[to] = true
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(to))); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, m[1])
				continue
			}
			if page, ok := all[to]; ok && m[2] != "" && !anchors(page)[m[2]] {
				t.Errorf("%s links to %s%s, but the page has no such heading", path, m[1], m[2])
			}
		}
	}
	if len(seen) < 60 {
		t.Errorf("the pages link to %d files: the pattern is broken", len(seen))
	}
	images, err := os.ReadDir(filepath.Join(root, "docs", "img"))
	require.OK(t, err)
	for _, image := range images {
		if !seen["docs/img/"+image.Name()] {
			t.Errorf("no page shows docs/img/%s: show it or delete it", image.Name())
		}
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
