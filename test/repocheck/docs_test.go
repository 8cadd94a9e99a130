package repocheck

import (
	"go/doc"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/test/golden"
)

const (
	maxColumns = 100 // of prose; rows of tables and fences cannot be wrapped
)

// pages returns the Markdown files of the repo, by slash separated path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*.md", "*/*.md", "docs/*/*.md", "pkg/catalog/search/embedding/maketable/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range found {
			text, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			rel, err := filepath.Rel(root, p)
			if err != nil {
				t.Fatal(err)
			}
			all[filepath.ToSlash(rel)] = string(text)
		}
	}
	if len(all) < 15 {
		t.Fatalf("found %d pages: the walk is broken", len(all))
	}
	return all
}

func TestMarkdown(t *testing.T) {
	for path, text := range pages(t) {
		fence := false
		for i, line := range strings.Split(text, "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fence = !fence
			}
			if !fence && (strings.HasPrefix(line, "<<<<<<< ") || strings.HasPrefix(line, ">>>>>>> ")) {
				t.Errorf("%s:%d is a merge marker", path, i+1)
			}
			words := strings.Fields(line) // a single word is a URL or a command that cannot be broken
			if n := utf8.RuneCountInString(line); n > maxColumns && !fence && !strings.HasPrefix(line, "|") && len(words) > 2 && !strings.Contains(line, "`") {
				t.Errorf("%s:%d has %d columns, want <= %d", path, i+1, n, maxColumns)
			}
		}
		if n := strings.Count(text, "\n"); path == "README.md" && n >= 120 {
			t.Errorf("README.md has %d lines, want < 120", n)
		}
	}
}

// A file or folder that a page names in backquotes exists.
func TestPagesNameFilesThatExist(t *testing.T) {
	named := regexp.MustCompile("`((?:cmd|functions|internal|pkg|test|infra|events|localstack|docs)/[a-z0-9_./-]+)`")
	seen := 0
	for path, text := range pages(t) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			seen++
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(m[1]))); err != nil {
				t.Errorf("%s names %s, which does not exist", path, m[1])
			}
		}
	}
	if seen < 50 {
		t.Errorf("the pages name %d files: the pattern is broken", seen)
	}
}

// packageComments returns the comment of each package outside test/ as one line, by folder.
func packageComments(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, f := range files(t) {
		if f.ast.Doc != nil && !f.test {
			all[f.dir] = strings.Join(strings.Fields(f.ast.Doc.Text()), " ")
		}
	}
	return all
}

// docs/code-map.md lists each package with the first sentence of its comment.
func TestArchitecturePackages(t *testing.T) {
	page, comments := pages(t)["docs/code-map.md"], packageComments(t)
	listed := map[string]bool{}
	for _, cells := range golden.Rows(t, page, "| package |") {
		dir := strings.Trim(cells[0], "`")
		listed[dir] = true
		if want := synopsis(comments[dir]); cells[1] != want {
			t.Errorf(
				"docs/code-map.md says of %s\n  %s\nits comment says\n  %s",
				dir,
				cells[1],
				want,
			)
		}
	}
	for dir := range comments {
		if !testOnly(dir) && !listed[dir] {
			t.Errorf(
				"docs/code-map.md does not list %s: | `%s` | %s |",
				dir,
				dir,
				synopsis(comments[dir]),
			)
		}
	}
}

// synopsis returns the first sentence of a package comment in the form of the page: from its verb
// on, and without the brackets of links.
func synopsis(comment string) string {
	sentence := new(doc.Package).Synopsis(comment)
	if words := strings.SplitN(sentence, " ", 3); len(words) == 3 {
		sentence = words[2]
	}
	return strings.NewReplacer("[", "", "]", "").Replace(sentence)
}

// Each term of the glossary has one sentence and a page. If it has a package, the comment of the
// package uses the term.
func TestGlossary(t *testing.T) {
	page, comments := pages(t)["docs/glossary.md"], packageComments(t)
	table := golden.Rows(t, page, "| term |")
	terms := make([]string, 0, len(table))
	for _, cells := range table {
		term, dir := strings.ToLower(cells[0]), strings.Trim(cells[3], "`")
		terms = append(terms, term)
		words := len(strings.Fields(cells[1]))
		if words > 25 || words < 3 || strings.Contains(cells[1], ". ") {
			t.Errorf("%s: want a meaning of one sentence, with at most 25 words", term)
		}
		if !strings.Contains(cells[2], "](") {
			t.Errorf("%s: want a link to a page", term)
		}
		uses := regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(term) + `(s|es)?\b`)
		if comment, ok := comments[dir]; dir != "" && !ok {
			t.Errorf("%s: no package %s", term, dir)
		} else if dir != "" && !uses.MatchString(comment) {
			t.Errorf("the comment of %s does not use the term %q of the glossary", dir, term)
		}
	}
	if !slices.IsSorted(terms) || len(slices.Compact(slices.Clone(terms))) != len(terms) {
		t.Errorf("the glossary is not in alphabetical order, or has a term twice: %q", terms)
	}
}

// Each test that a page names exists. If the page names its package, as in `gateway: TestMenu`, the
// test is in a package with this end of its path.
func TestDocsNameTests(t *testing.T) {
	in := map[string][]string{} // the folders of each test
	for _, f := range files(t) {
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`).FindAllSubmatch(f.src, -1) {
			in[string(m[1])] = append(in[string(m[1])], "/"+f.dir)
		}
	}
	named := 0
	for path, text := range pages(t) {
		for _, m := range regexp.MustCompile("`(?:([\\w/]+): )?(Test[A-Z]\\w+)(?:/\\w+)?`").FindAllStringSubmatch(text, -1) {
			named++
			if !slices.ContainsFunc(in[m[2]], func(dir string) bool {
				return m[1] == "" || strings.HasSuffix(dir, "/"+m[1])
			}) {
				t.Errorf(
					"%s names the test %s of %q, which does not exist; it is in %q",
					path,
					m[2],
					m[1],
					in[m[2]],
				)
			}
		}
	}
	if named < 15 {
		t.Errorf("the pages name %d tests: the search is broken", named)
	}
}
