package repocheck

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/golden"
)

// docs/http-api.md has a row for each path that these packages serve. The admin API has its own
// document, and the console its own table of addresses.
func TestHTTPPageAddresses(t *testing.T) {
	packages := []string{
		"internal/boot", "internal/metrics", "pkg/agent/mcphttp", "pkg/upstream/connection",
	}
	address := regexp.MustCompile(`^/[a-z.][a-z./-]*$`)
	rows := golden.Rows(t, pages(t)["docs/http-api.md"], "| address |")
	found := 0
	for _, f := range files(t) {
		if f.test || !slices.Contains(packages, f.dir) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for _, v := range spec.Values {
				path := literal(v)
				if !address.MatchString(path) {
					continue
				}
				found++
				if !slices.ContainsFunc(rows, func(cells []string) bool {
					return strings.Trim(cells[0], "`") == path
				}) {
					t.Errorf("docs/http-api.md has no row for the address %s of %s", path, f.path)
				}
			}
			return true
		})
	}
	if found < 8 {
		t.Errorf("found %d addresses in %v: the pattern is broken", found, packages)
	}
}
