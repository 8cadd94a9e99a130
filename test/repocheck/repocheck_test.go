// Package repocheck contains only tests, which check the rules of this repository. They check the
// imports of packages, the length of files and functions, the use of the AWS SDK, and the docs.
package repocheck

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

const (
	root        = "../.."
	module      = "github.com/portcullis-mcp/portcullis/"
	maxLines    = 500
	maxMain     = 60
	maxFunction = 80
)

// awsPackages contains the only packages that may import AWS modules.
var awsPackages = []string{
	"pkg/store/dynamo", "pkg/store/s3", "pkg/aws/secrets", "pkg/aws/cloudwatch", "pkg/aws/sns",
	"pkg/aws/sqs", "pkg/aws/kms", "pkg/aws/apigw", "pkg/aws/awsjson", "internal/boot/aws",
	"internal/boot/bucket", "functions/hook",
}

// A file is one parsed Go file of the module.
type file struct {
	path string // slash separated, relative to the module
	dir  string
	test bool
	src  []byte
	fset *token.FileSet
	ast  *ast.File
}

// files returns the Go files of the module. They are parsed once.
func files(t *testing.T) []file {
	t.Helper()
	all, err := parsed()
	require.OK(t, err)
	if len(all) < 20 {
		t.Fatalf("found %d Go files: the walk is broken", len(all))
	}
	return all
}

var parsed = sync.OnceValues(func() ([]file, error) {
	var all []file
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && p != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(p) != ".go" {
			return nil
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, rel, src, parser.ParseComments)
		if err != nil {
			return err
		}
		all = append(all, file{rel, path.Dir(rel), strings.HasSuffix(rel, "_test.go"), src, fset, f})
		return nil
	})
	return all, err
})

// testOnly reports whether only tests may import a package: it is below test/, or its name ends in
// "test".
func testOnly(dir string) bool {
	return strings.HasPrefix(dir, "test/") || strings.HasSuffix(path.Base(dir), "test")
}

func TestOnlyDriversAndWiringImportAWS(t *testing.T) {
	for _, f := range files(t) {
		if f.test {
			continue
		}
		for _, spec := range f.ast.Imports {
			p := importPath(spec)
			if !strings.HasPrefix(p, "github.com/aws/") && !strings.HasPrefix(p, "github.com/awslabs/") {
				continue
			}
			if !slices.Contains(awsPackages, f.dir) && !testOnly(f.dir) {
				t.Errorf("%s imports %s: only %v may", f.path, p, awsPackages)
			}
		}
	}
}

func TestFilesAndFunctionsAreShort(t *testing.T) {
	for _, f := range files(t) {
		limit := maxLines
		if path.Base(f.path) == "main.go" && (strings.HasPrefix(f.path, "functions/") || strings.HasPrefix(f.path, "cmd/")) {
			limit = maxMain
		}
		if n := bytes.Count(f.src, []byte("\n")); n > limit {
			t.Errorf("%s has %d lines, want <= %d", f.path, n, limit)
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1
			if n > maxFunction {
				t.Errorf("%s: %s has %d lines, want <= %d", f.path, fn.Name.Name, n, maxFunction)
			}
		}
	}
}

func TestEveryPackageHasOneComment(t *testing.T) {
	comments := map[string]int{}
	seen := map[string]bool{}
	for _, f := range files(t) {
		if strings.HasSuffix(f.ast.Name.Name, "_test") || (f.test && f.dir != "test/repocheck") {
			continue
		}
		seen[f.dir] = true
		if f.ast.Doc != nil {
			comments[f.dir]++
		}
	}
	for dir := range seen {
		if comments[dir] != 1 {
			t.Errorf("%s has %d package comments, want 1", dir, comments[dir])
		}
	}
}

func TestNoNakedTodo(t *testing.T) {
	naked := regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`)
	for _, f := range files(t) {
		if f.dir == "test/repocheck" {
			continue
		}
		for _, group := range f.ast.Comments {
			if naked.MatchString(group.Text()) {
				t.Errorf("%s: %s: describe what is missing, and why, in docs/ instead of a note in the code", f.path, f.fset.Position(group.Pos()))
			}
		}
	}
}

func TestNoGlobalsByInit(t *testing.T) {
	for _, f := range files(t) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s has an init function: build dependencies explicitly in main or run",
					f.path)
			}
		}
	}
}

// The tests that docs/design/faults.md names exist.
func TestTheTestsThatThePageNamesExist(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "design", "faults.md"))
	require.OK(t, err)
	have := map[string]bool{}
	for _, f := range files(t) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.test {
				have[fn.Name.Name] = true
			}
		}
	}
	named := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`).FindAll(page, -1)
	if len(named) < 100 {
		t.Errorf("the page names %d tests: the pattern is broken", len(named))
	}
	for _, name := range named {
		if !have[string(name)] {
			t.Errorf("docs/design/faults.md names %s, which is not a test", name)
		}
	}
}

// All log lines use the same key for errors, so that one search finds all errors.
func TestLogsNameErrorsAlike(t *testing.T) {
	key := regexp.MustCompile(`slog\.(?:Any|String)\("(err|e|reason_err|cause)",`)
	for _, f := range files(t) {
		if m := key.FindSubmatch(f.src); m != nil && !f.test {
			t.Errorf(`%s logs an error as %q, want "error"`, f.path, m[1])
		}
	}
}

// Only rawjson.Indent, which has a limit, indents JSON. The output of encoding/json can grow with
// the square of the depth.
func TestOnlyRawjsonIndents(t *testing.T) {
	indents := regexp.MustCompile(`\bjson\.(?:Indent|MarshalIndent)\(|\.SetIndent\(|jsontext\.(?:WithIndent|Multiline)`)
	for _, f := range files(t) {
		if m := indents.Find(f.src); m != nil && !f.test && !strings.HasPrefix(f.path, "test/") {
			t.Errorf("%s calls %s: call rawjson.Indent, which is bounded", f.path, m)
		}
	}
}

func TestNoForbiddenPackageNames(t *testing.T) {
	for _, f := range files(t) {
		if slices.Contains([]string{"util", "utils", "common", "types", "helpers", "misc"}, f.ast.Name.Name) {
			t.Errorf("%s: package %s: a package has a noun as its name", f.path, f.ast.Name.Name)
		}
	}
}

func TestDirectDependenciesAreExplained(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.OK(t, err)
	doc, err := os.ReadFile(filepath.Join(root, "docs", "dependencies.md"))
	require.OK(t, err)
	direct := regexp.MustCompile(`(?m)^\s+(\S+) v\S+$`)
	found := direct.FindAllSubmatch(mod, -1)
	if len(found) == 0 {
		t.Fatal("no direct dependency found in go.mod: the pattern is broken")
	}
	lines := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^\| (\S+/\S+) \|`).FindAllSubmatch(doc, -1) {
		lines[string(m[1])]++
	}
	for _, m := range found {
		if n := lines[string(m[1])]; n != 1 {
			t.Errorf("docs/dependencies.md has %d lines for %s, want one", n, m[1])
		}
		delete(lines, string(m[1]))
	}
	for module := range lines {
		t.Errorf("docs/dependencies.md explains %s, which go.mod does not require", module)
	}
}

func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return ""
	}
	return p
}
