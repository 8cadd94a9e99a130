package repocheck

import (
	"slices"
	"strings"
	"testing"
)

// layers lists the groups of packages from the top down, with their users or tasks. A package may
// import packages of its own group and of lower ones. Drivers of AWS are above the interfaces that
// they implement.
var layers = []string{
	"cmd", "functions", "internal",
	"pkg/aws", "pkg/people", "pkg/agent", "pkg/catalog", "pkg/upstream", "pkg/store", "pkg/rules", "pkg/base",
}

// maxArrows is the maximum number of pairs of groups in which one group imports the other.
const maxArrows = 40

// layerOf returns the number of a folder's layer, from the top, or -1 if it has no layer.
func layerOf(dir string) int {
	return slices.IndexFunc(layers, func(l string) bool { return dir == l || strings.HasPrefix(dir, l+"/") })
}

func TestImportLayers(t *testing.T) {
	arrows := map[[2]int]bool{}
	for _, f := range files(t) {
		if f.test || testOnly(f.dir) {
			continue
		}
		from := layerOf(f.dir)
		if from < 0 {
			t.Errorf("%s is in no layer: move it below one of %q", f.path, layers)
			continue
		}
		for _, spec := range f.ast.Imports {
			target, ok := strings.CutPrefix(importPath(spec), module)
			if !ok {
				continue
			}
			to := layerOf(target)
			switch {
			case testOnly(target):
				t.Errorf("%s imports the test package %s", f.path, target)
			case to < 0:
				t.Errorf("%s imports %s, which is in no layer", f.path, target)
			case to < from:
				t.Errorf("%s imports %s: %s is above %s, and imports go down; let the lower package define what it "+
					"needs, or move one of them", f.path, target, layers[to], layers[from])
			case to > from:
				arrows[[2]int{from, to}] = true
			}
		}
	}
	if len(arrows) > maxArrows {
		t.Errorf("imports between %d pairs of layers, want <= %d", len(arrows), maxArrows)
	}
}
