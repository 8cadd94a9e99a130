package console

import "testing"

// A page is parsed when it is asked for, so that a wrong template would show no earlier.
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
