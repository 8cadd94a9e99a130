package catalog_test

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
)

func TestRebuildRefuses(t *testing.T) {
	in := catalog.Input{Servers: []catalog.ServerInput{{Name: "other", Same: true}}}
	if _, err := catalog.Build(in); err == nil {
		t.Error("Build accepts a server with Same, although there is no last catalog")
	}
	for name, prev := range map[string]*catalog.Snapshot{"no catalog": nil, "a catalog without the server": build(t, sample(t))} {
		if _, err := catalog.Rebuild(prev, in); err == nil {
			t.Errorf("%s: Rebuild accepts a server with Same that the last catalog does not have", name)
		}
	}
}

// TestRecipe compares the result of Build for the sample. If the result changes, syncs must not
// reuse catalogs of earlier programs. So increase the constant recipe of package catalog, and put
// the new digest here.
func TestRecipe(t *testing.T) {
	const recipe3 = "ccc6f612a0784091dcfb368ad91a7ad81c4b081d810e426765693598f0979743"
	if got := build(t, sample(t)).SHA256(); got != recipe3 {
		t.Errorf("Build of the sample = %s, want %s as before; if this is intended, increase the constant recipe", got, recipe3)
	}
}
