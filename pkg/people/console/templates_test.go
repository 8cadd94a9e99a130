package console

import "testing"

// TestTemplatesParse parses every page: the program parses a page at its first use, so a wrong
// template would fail late.
func TestTemplatesParse(t *testing.T) {
	all := templates()
	if len(all) < 10 {
		t.Errorf("%d pages", len(all))
	}
	for name, parsed := range all {
		if parsed().Lookup("layout") == nil {
			t.Errorf("%s has no layout", name)
		}
	}
}
