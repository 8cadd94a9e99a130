package repocheck

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// keptExports contains the exported names that no other package uses, with the reason.
var keptExports = map[string]string{
	"pkg/people/admin.ItemPath": "the library of the API reads only exported fields, and embedded types are fields",
	"pkg/people/console.Page":   "every page embeds it, and templates read only exported fields",
}

// TestExportsAreUsed checks that another package uses each exported constant, variable, type and
// function of pkg/. A type may also be the type of an exported parameter, result, field or
// constant. The test does not check methods and fields.
func TestExportsAreUsed(t *testing.T) {
	used := usedNames(t)
	for _, f := range files(t) {
		if f.test || testOnly(f.dir) || !strings.HasPrefix(f.dir, "pkg/") {
			continue
		}
		for _, name := range exportedNames(f.ast) {
			id := f.dir + "." + name
			_, kept := keptExports[id]
			switch {
			case kept && used[id]:
				t.Errorf("%s: other packages use %s now: delete it from keptExports", f.path, name)
			case !kept && !used[id]:
				t.Errorf("%s: no other package uses %s: make it unexported or delete it", f.path, name)
			}
		}
	}
}

// exportedNames returns the exported names that a file declares at its top level, without methods.
func exportedNames(f *ast.File) (names []string) {
	add := func(ids ...*ast.Ident) {
		for _, id := range ids {
			if id.IsExported() {
				names = append(names, id.Name)
			}
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(spec.Name)
				case *ast.ValueSpec:
					add(spec.Names...)
				}
			}
		}
	}
	return names
}

// usedNames returns each "dir.Name" that a file of another package uses, including the package's
// own _test package. It also returns the names in the types of exported declarations.
func usedNames(t *testing.T) map[string]bool {
	used := map[string]bool{}
	for _, f := range files(t) {
		imported := map[string]string{} // name in the file -> folder
		for _, spec := range f.ast.Imports {
			dir, ours := strings.CutPrefix(importPath(spec), module)
			name := path.Base(dir)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			if ours {
				imported[name] = dir
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && imported[x.Name] != "" {
					used[imported[x.Name]+"."+s.Sel.Name] = true
				}
			}
			return true
		})
		if f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			for _, name := range namedTypes(d) {
				used[f.dir+"."+name] = true
			}
		}
	}
	return used
}

// namedTypes returns the names in the type of an exported declaration, and the constants of an
// exported type.
func namedTypes(d ast.Decl) (names []string) {
	add := func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && id.IsExported() {
				names = append(names, id.Name)
			}
			return true
		})
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() {
			add(d.Type)
		}
	case *ast.GenDecl:
		typed := false
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					add(spec.Type)
				}
			case *ast.ValueSpec:
				if spec.Type != nil {
					add(spec.Type)
				}
				if typed = d.Tok == token.CONST && (spec.Type != nil || typed && spec.Values == nil); typed {
					for _, id := range spec.Names {
						add(id)
					}
				}
			}
		}
	}
	return names
}

// maxWidth is the longest line in columns, with tabs of four.
const maxWidth = 100

// wideLines contains the number of lines over maxWidth that a tree may still have. The numbers may
// only fall.
var wideLines = map[string]int{"product": 3011, "tests": 8557}

// TestLinesAreNarrow checks that the number of lines over maxWidth does not rise.
func TestLinesAreNarrow(t *testing.T) {
	places := map[string][]string{} // by tree
	for _, f := range files(t) {
		tree := "product"
		if f.test || testOnly(f.dir) {
			tree = "tests"
		}
		for n, line := range strings.Split(string(f.src), "\n") {
			if len([]rune(strings.ReplaceAll(line, "\t", "    "))) > maxWidth {
				places[tree] = append(places[tree], f.path+":"+strconv.Itoa(n+1))
			}
		}
	}
	for tree, most := range wideLines {
		switch got := len(places[tree]); {
		case got > most:
			slices.Sort(places[tree])
			t.Errorf("%d lines of %s are over %d columns, want <= %d: break those that you wrote: git diff | grep '^+'", got, tree, maxWidth, most)
		case got < most-50:
			t.Errorf("%d lines of %s are over %d columns: lower wideLines from %d to this number", got, tree, maxWidth, most)
		}
	}
}
