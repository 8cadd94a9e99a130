package house

import (
	"strings"
	"testing"
)

// layers lists the packages from the top down. A package may import those of lower lists only, never
// one beside it; the packages below a folder are where it is.
var layers = [][]string{
	{"cmd", "functions"},
	{"internal"},
	{"pkg/mcphttp", "pkg/admin", "pkg/console", "pkg/apigw"},
	{"pkg/decide"},
	{"pkg/gateway"},
	{"pkg/deed"},
	{"pkg/state", "pkg/fanout"},
	{"pkg/catalog"},
	{"pkg/upstream", "pkg/relay", "pkg/toolset", "pkg/policy", "pkg/store", "pkg/issuer"},
	{"pkg/usage", "pkg/request", "pkg/trace", "pkg/notify", "pkg/lockfile", "pkg/clientfile"},
	{"pkg/search", "pkg/config", "pkg/approval", "pkg/object", "pkg/identity", "pkg/login", "pkg/metrics", "pkg/outcome", "pkg/finding", "pkg/review", "pkg/audit"},
	{"pkg/lock", "pkg/stop", "pkg/mcp", "pkg/tool", "pkg/token", "pkg/session", "pkg/signature", "pkg/egress", "pkg/child", "pkg/connect", "pkg/seal"},
	{"pkg/document", "pkg/rawjson", "pkg/lines", "pkg/quota", "pkg/secret", "pkg/sse", "pkg/text", "pkg/capacity"},
}

// layerOf returns the number of the layer that a folder is in, from the top, and its entry; -1 for none.
func layerOf(dir string) (layer int, entry string) {
	for i, entries := range layers {
		for _, r := range entries {
			if dir == r || strings.HasPrefix(dir, r+"/") {
				return i, r
			}
		}
	}
	return -1, ""
}

func TestImportLayers(t *testing.T) {
	for _, f := range files(t) {
		if f.test || testOnly(f.dir) {
			continue
		}
		from, entry := layerOf(f.dir)
		if from < 0 {
			t.Errorf("%s: its package is in no layer; add it to layers", f.path)
			continue
		}
		for _, spec := range f.ast.Imports {
			target, ok := strings.CutPrefix(importPath(spec), module)
			if !ok {
				continue
			}
			to, other := layerOf(target)
			if to < 0 || testOnly(target) || to > from || other == entry {
				if testOnly(target) {
					t.Errorf("%s imports the test package %s", f.path, target)
				}
				continue
			}
			t.Errorf("%s imports %s: imports go down the layers only", f.path, target)
		}
	}
}
