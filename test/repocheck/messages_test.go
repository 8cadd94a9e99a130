package repocheck

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// docs/troubleshooting.md has the messages of this program in fences of the kind "text", one
// message a line. Messages of other programs are in fences of the kind "console".
func TestTroubleshootingQuotesMessages(t *testing.T) {
	said := printed(t)
	page := pages(t)["docs/troubleshooting.md"]
	quoted := 0
	for _, m := range regexp.MustCompile("(?s)```text\n(.*?)```").FindAllStringSubmatch(page, -1) {
		for message := range strings.Lines(m[1]) {
			quoted++
			for piece := range strings.SplitSeq(strings.ReplaceAll(strings.TrimSpace(message), `"…"`, "…"), "…") {
				if rest := unsaid(said, piece); rest != "" {
					t.Errorf("docs/troubleshooting.md quotes\n  %s"+
						"but no text of the program contains the rest of the message: %q", message, rest)
				}
			}
		}
	}
	if quoted < 60 {
		t.Errorf("the page quotes %d messages: the pattern is broken", quoted)
	}
}

// Each entry of docs/troubleshooting.md says what took effect, and what to do.
func TestTroubleshootingEntries(t *testing.T) {
	entries := strings.Split(pages(t)["docs/troubleshooting.md"], "\n### ")[1:]
	for _, e := range entries {
		head, _, _ := strings.Cut(e, "\n")
		for _, part := range []string{"\n```", "**Took effect:**", "**Do:**"} {
			if !strings.Contains(e, part) {
				t.Errorf("docs/troubleshooting.md, %q has no %q", head, part)
			}
		}
	}
}

// joints are the characters that may separate two source texts in one message.
const joints = ` :;"`

// unsaid removes the texts of the source from the start of a message, the longest first, and
// returns the rest. Texts must have 20 characters on average. Otherwise single letters would match
// any message.
func unsaid(said, message string) string {
	whole, texts := len(message), 0
	for message = strings.Trim(message, joints); message != ""; message = strings.TrimLeft(message, joints) {
		n := 0
		for step := len(message); step > 0; step /= 2 {
			for n+step <= len(message) && strings.Contains(said, message[:n+step]) {
				n += step
			}
		}
		if texts++; n == 0 || texts > 1+whole/20 {
			return message
		}
		message = message[n:]
	}
	return ""
}

// printed returns all texts that the program may print, with "…" instead of the variable parts.
func printed(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	constants := map[string]string{}
	var shipped []file
	for _, f := range files(t) {
		if !testOnly(f.dir) && !f.test {
			shipped = append(shipped, f)
			f.constants(constants)
		}
	}
	for _, f := range shipped {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text := f.fold(e, constants)
			if text == unknown {
				return true
			}
			all.WriteString(text + "\n")
			return false
		})
	}
	template, err := os.ReadFile(filepath.Join(root, "template.yaml"))
	require.OK(t, err)
	all.Write(template)
	return all.String()
}

const unknown = "…"

var verb = regexp.MustCompile(`%(\[\d\])?[+#.0-9]*[a-zA-Z]`)

// constants adds the texts of a file's constants to all, by package and name.
func (f file) constants(all map[string]string) {
	for _, d := range f.ast.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			for i, name := range v.Names {
				if i < len(v.Values) {
					if text := f.fold(v.Values[i], all); text != unknown {
						all[f.ast.Name.Name+"."+name.Name] = text
					}
				}
			}
		}
	}
}

// fold returns the text of an expression, with "…" instead of unknown parts.
func (f file) fold(e ast.Expr, constants map[string]string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return verb.ReplaceAllString(text, unknown)
		}
	case *ast.Ident:
		if text, ok := constants[f.ast.Name.Name+"."+e.Name]; ok {
			return text
		}
	case *ast.SelectorExpr:
		if pkg, ok := e.X.(*ast.Ident); ok {
			if text, ok := constants[pkg.Name+"."+e.Sel.Name]; ok {
				return text
			}
		}
	case *ast.ParenExpr:
		return f.fold(e.X, constants)
	case *ast.BinaryExpr:
		left, right := f.fold(e.X, constants), f.fold(e.Y, constants)
		if e.Op == token.ADD && (left != unknown || right != unknown) {
			return left + right
		}
	}
	return unknown
}
