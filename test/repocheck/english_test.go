package repocheck

import (
	"flag"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

var (
	updateEnglish = flag.Bool("update-english", false, "write the counts of TestPlainEnglish")
	listEnglish   = flag.String("list-english", "", "print the phrases below a folder")
)

// englishCounts is the file with the number of phrases that each folder still has. A count may only
// fall.
const englishCounts = "testdata/english.txt"

// A phrase is a pattern of text that readers must read twice, and advice for a better form.
type phrase struct {
	is     *regexp.Regexp
	better string
}

// phrases contains patterns that a program can find without understanding a sentence. A sentence
// starts with "^ ": see [sentences].
var phrases = []phrase{
	{start(`Of (?!course)`), `name the subject first: "Two operators can …"`},
	{start(`(What|Whatever|Who|Whoever|Whom|Whose|That which) [^?]*$`),
		"name the subject: the field, the caller"},
	{start(`(To|Where|Whether|That) [^?,]* (is|are|was|were) `), "name the subject first"},
	{words(`(is|are|was|were|be|been|being) (told|said|asked|taken|let)`),
		`say who acts: "the refusal includes", "the client sends"`},
	{words(`(is|are|was|were) (meant|wanted|looked at|held|kept) (of|by|for)`), "say who acts"},
	{words(`(that|those|the one|the ones) of`), "repeat the noun"},
	{words(`the (one|ones) (that|which|who)`), "repeat the noun"},
	{words(`(also if|also when|also where)`), `"even if"`},
	{words(`in the place of`), `"instead of"`},
	{words(`anew`), `"again"`},
	{words(`besides`), `"in addition"`},
	{words(`by itself`), `"automatically", "alone"`},
	{words(`at the latest`), `"within a minute"`},
	{words(`(nothing|all|none|anything|everything|nobody) but for`), `"except"`},
	{words(`as a rule`), `"usually"`},
	{words(`(for|in) want of`), `"without"`},
	{words(`(if need be|all the same|so long|as yet|by now|by then|from then on)`),
		"say the condition"},
	{words(`(deed|deeds|house rules?|ladder|desk|courier|teller)`), "use the field's term"},
	{words(`(lies|lie|stands|stand) (in|at|on|for|there|before|behind|beside|between)`), `"is in"`},
	{words(`(goes|go|went) (by|on from)`), `"uses", "continues from"`},
	{words(`(mend|mends|mended|reckon|reckons|reckoned|heed|heeds)`), `"fix", "compute", "check"`},
	{words(`(left alone|leaves? alone|asleep|told apart|tells? apart|lets? go of)`),
		`"is skipped", "idle", "distinguishes", "releases"`},
	{words(`(is|are|was|were) (up to|down to|of|for|from) (whoever|whom|whose)`), "say who"},
	{words(`(whoever|whomever|whatever|whichever)`), "name the person or the thing"},
	{words(`(it|this|that) (is|was) (not )?(known|clear|sure) (of|to) `), "say who knows what"},
	{words(`(or|and) else`), `"otherwise"`},
	{words(`[a-z]+ is there no`), "use subject, verb, object"},
	{badName, "a noun for a type, a verb for a function"},
}

// start matches a sentence that starts with s. Go's patterns have no look-ahead, so "(?!" is
// removed.
func start(s string) *regexp.Regexp {
	return regexp.MustCompile(`^` + regexp.MustCompile(`\(\?![^)]*\)`).ReplaceAllString(s, ""))
}

func words(s string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b` + s + `\b`) }

// A sentence contains a text, its place, and the kind of its text.
type sentence struct {
	path string
	line int
	kind string // comments, messages, names, help, docs, pages, templates
	text string
}

// TestPlainEnglish counts phrases by kind of text and folder. No count may rise. To list the
// phrases: go test ./test/repocheck -run PlainEnglish -v -list-english pkg/catalog
func TestPlainEnglish(t *testing.T) {
	counts := map[string]int{}
	for s := range allSentences(t) {
		for _, p := range phrases {
			found := p.is.FindString(s.text)
			if found == "" || (s.kind == "names") != (p.is == badName) {
				continue
			}
			counts[s.kind+" "+path.Dir(s.path)]++
			if *listEnglish != "" && strings.HasPrefix(s.path, *listEnglish) {
				fmt.Printf("%s:%d: %s: %q: %s\n\t%s\n", s.path, s.line, s.kind, found, p.better, s.text)
			}
		}
	}
	if *updateEnglish {
		writeCounts(t, counts)
		return
	}
	limits := readCounts(t)
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		if kind, dir, _ := strings.Cut(k, " "); counts[k] > limits[k] {
			t.Errorf("%s of %s: %d phrases that have to be read twice, at most %d: see them with "+
				"go test ./test/repocheck -run PlainEnglish -v -list-english %s",
				kind, dir, counts[k], limits[k], dir)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(limits)) {
		if counts[k] < limits[k] {
			t.Errorf("%s has %d phrases, but %s says %d: run with -update-english",
				k, counts[k], englishCounts, limits[k])
		}
	}
}

func writeCounts(t *testing.T, counts map[string]int) {
	t.Helper()
	var out strings.Builder
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&out, "%s %d\n", k, counts[k])
	}
	require.OK(t, os.WriteFile(englishCounts, []byte(out.String()), 0o600))
}

func readCounts(t *testing.T) map[string]int {
	t.Helper()
	data, err := os.ReadFile(englishCounts)
	require.OK(t, err)
	counts := map[string]int{}
	for line := range strings.Lines(string(data)) {
		at := strings.LastIndex(line, " ")
		n, err := strconv.Atoi(strings.TrimSpace(line[at+1:]))
		require.OK(t, err)
		counts[line[:at]] = n
	}
	return counts
}

// allSentences returns the sentences of comments, messages, help texts, docs, console pages and
// templates.
func allSentences(t *testing.T) func(yield func(sentence) bool) {
	t.Helper()
	var all []sentence
	add := func(p string, line int, kind, text string) {
		for _, s := range split(text) {
			all = append(all, sentence{p, line, kind, s})
		}
	}
	for _, f := range files(t) {
		if f.path == "test/repocheck/english_test.go" {
			continue
		}
		goSentences(f, add)
	}
	for p, text := range pages(t) {
		markdownSentences(p, text, add)
	}
	for _, pattern := range []string{
		"pkg/people/console/templates/*.html", "template.yaml", "infra/*.yaml", "infra/rights/*.yaml", "Makefile",
	} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		require.OK(t, err)
		for _, p := range found {
			data, err := os.ReadFile(p)
			require.OK(t, err)
			rel, err := filepath.Rel(root, p)
			require.OK(t, err)
			otherSentences(filepath.ToSlash(rel), string(data), add)
		}
	}
	return slices.Values(all)
}

// goSentences adds the comments of a file, and its string literals with at least four words. A
// shorter literal is not a sentence.
func goSentences(f file, add func(p string, line int, kind, text string)) {
	for _, group := range f.ast.Comments {
		add(f.path, f.fset.Position(group.Pos()).Line, "comments", group.Text())
	}
	if f.test || testOnly(f.dir) {
		return
	}
	addNames(f, add)
	ast.Inspect(f.ast, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		if err != nil || strings.Count(text, " ") < 3 {
			return true
		}
		kind := "messages"
		if m := helpTag.FindStringSubmatch(text); m != nil {
			kind, text = "help", m[1]
		}
		add(f.path, f.fset.Position(lit.Pos()).Line, kind, text)
		return true
	})
}

var helpTag = regexp.MustCompile(`(?:help|doc):"((?:[^"\\]|\\.)*)"`)

// markdownSentences adds the text of a page without fences and code.
func markdownSentences(p, text string, add func(p string, line int, kind, text string)) {
	fence, para, at := false, "", 1
	for i, line := range strings.Split(text+"\n", "\n") {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			fence = !fence
			continue
		}
		item := strings.HasPrefix(trimmed, "- ") || strings.HasPrefix(trimmed, "|")
		if fence || trimmed == "" || item {
			add(p, at, "docs", para)
			para, at = "", i+1
		}
		if !fence {
			para += " " + code.ReplaceAllString(strings.Trim(trimmed, "|-# "), "X")
		}
	}
	add(p, at, "docs", para)
}

var code = regexp.MustCompile("`[^`]*`")

// otherSentences adds the text of a console page, and the descriptions and comments of a template
// or Makefile.
func otherSentences(p, text string, add func(p string, line int, kind, text string)) {
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasSuffix(p, ".html"):
			line = markup.ReplaceAllString(line, " ")
			add(p, i+1, "pages", line)
		default:
			if _, after, ok := strings.Cut(line, "# "); ok {
				add(p, i+1, "templates", after)
			} else if _, after, ok := strings.Cut(line, "Description: "); ok {
				add(p, i+1, "templates", after)
			}
		}
	}
}

var markup = regexp.MustCompile(`<[^>]*>|\{\{[^}]*\}\}`)

// split returns the sentences of a text, each on one line.
func split(text string) []string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.Split(stops.ReplaceAllString(text, "$1\n"), "\n")
}

var stops = regexp.MustCompile(`([.?!:;]) (?:[-*] )?`)
