package repocheck

import (
	"go/ast"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// subject matches a commit's subject: packages or files, a colon, a verb in the imperative, an
// object.
var (
	subject     = regexp.MustCompile(`^[A-Za-z0-9_./*, -]+: [a-z]+ \S`)
	subjectVerb = regexp.MustCompile(`: ([a-z]+) `)
	// imperative matches imperatives that end like a third person, a past form or a noun.
	imperative = regexp.MustCompile(`^(pass|process|address|focus|express|compress|embed|need|feed|` +
		`seed|shed|exceed|proceed|bring|string|discuss|access|bypass|suppress)$`)
)

// TestCommitSubjects checks the commits after the commit of this file. A clone without history
// has only its last commit.
func TestCommitSubjects(t *testing.T) {
	git := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = root
		out, err := cmd.Output()
		if err != nil {
			t.Skipf("the folder is not a git clone: git %s: %v", args[0], err)
		}
		return strings.TrimSpace(string(out))
	}
	commits := []string{"HEAD"}
	first := git("log", "--diff-filter=A", "--format=%H", "--", "test/repocheck/writing_test.go")
	if first != "" && git("rev-parse", "--is-shallow-repository") == "false" {
		commits = []string{first + "..HEAD"}
	} else {
		commits = append(commits, "-1")
	}
	log := append([]string{"log", "--no-merges", "--format=%s"}, commits...)
	for s := range strings.Lines(git(log...)) {
		if fault := subjectFault(strings.TrimSpace(s)); fault != "" {
			t.Errorf("commit %q: %s: want \"package: verb object\"", strings.TrimSpace(s), fault)
		}
	}
}

func subjectFault(s string) string {
	switch m := subjectVerb.FindStringSubmatch(s); {
	case len(s) > 72:
		return "it has more than 72 characters"
	case !subject.MatchString(s) || m == nil:
		return "it has no package, or no verb and object"
	case imperative.MatchString(m[1]):
		return ""
	case regexp.MustCompile(`(ed|ing|[^s]s)$`).MatchString(m[1]):
		return m[1] + " is not imperative"
	}
	return ""
}

func TestSubjectFault(t *testing.T) {
	for s, ok := range map[string]bool{
		"catalog: skip records of unreadable servers": true,
		"docs, console: process forms in one place":   true,
		"test/repocheck: count phrases":               true,
		"Skip records":                                false,
		"catalog: skips records of servers":           false,
		"catalog: skipped records":                    false,
		"catalog: records":                            false,
		"catalog: skip " + strings.Repeat("unreadable ", 7) + "servers of others": false,
	} {
		if fault := subjectFault(s); (fault == "") != ok {
			t.Errorf("%q: fault %q", s, fault)
		}
	}
}

// TestHelpAddsToItsFirstLine reads docs/commands.md, which contains the commands' help texts.
func TestHelpAddsToItsFirstLine(t *testing.T) {
	sections := regexp.MustCompile(`(?m)^## portcullis (.+)\n\n(.+)\n\n([A-Z][^|]+?)[.:]`)
	found := sections.FindAllStringSubmatch(pages(t)["docs/commands.md"], -1)
	if len(found) < 20 {
		t.Errorf("%d commands have a help text: the pattern is broken", len(found))
	}
	for _, m := range found {
		if repeats(m[2], m[3]) {
			t.Errorf("portcullis %s: the help text repeats its first line %q: %q", m[1], m[2], m[3])
		}
	}
}

// repeats reports whether a sentence has at least three quarters of the long words of another.
func repeats(first, next string) bool {
	word := regexp.MustCompile(`[a-z]{4,}`)
	has := word.FindAllString(strings.ToLower(next), -1)
	words := word.FindAllString(strings.ToLower(first), -1)
	n := 0
	for _, w := range words {
		if slices.Contains(has, w) {
			n++
		}
	}
	return len(words) > 0 && 4*n >= 3*len(words)
}

func TestRepeats(t *testing.T) {
	for _, row := range []struct {
		first, next string
		want        bool
	}{
		{"Approve tool definitions.", "It approves definitions of a tool", false},
		{"Print the audit.", "The lines come oldest first", false},
		{"Approve definitions.", "To approve definitions, name the items", true},
	} {
		if got := repeats(row.first, row.next); got != row.want {
			t.Errorf("%q after %q repeats it: %v", row.next, row.first, got)
		}
	}
}

// badName matches participles, prepositions, numbers and metaphors. Such a name does not say what a
// file, type, function or value is.
var badName = regexp.MustCompile(`(?i)^(held|told|settled|wanted|heard|said|asked|taken|given|known|` +
	`shown|opened|moved|found|kept|left|lost|gone|seen|meant|made|done|sent|unless|upon|beside|besides|` +
	`two|three|again|anew|ladder|lot|deed|deeds|sheet|house|room|floor|desk|teller|courier|wish|ahead|` +
	`due|of|over|under|apart|aside|moot|lead|sight|mend|reckon)$`)

// addNames adds the names of a file and of its functions, types and values.
func addNames(f file, add func(p string, line int, kind, text string)) {
	add(f.path, 1, "names", strings.TrimSuffix(path.Base(f.path), ".go"))
	name := func(n *ast.Ident) { add(f.path, f.fset.Position(n.Pos()).Line, "names", n.Name) }
	for _, d := range f.ast.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			name(fn.Name)
			continue
		}
		for _, s := range d.(*ast.GenDecl).Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				name(s.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					name(n)
				}
			}
		}
	}
}
