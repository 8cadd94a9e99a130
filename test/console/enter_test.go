package console_test

import (
	"fmt"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/local"
)

const (
	// fields is an expression: everything on a page into which a person types or in which a person
	// chooses, so that Enter is pressed there; of those with one name in a form the first.
	fields = `[...document.querySelectorAll('input:not([type=hidden], [type=submit], [type=button]), textarea, select')].filter((e, i, all) => all.findIndex(x => x.name === e.name && x.form === e.form) === i)`

	// watched is an expression: what Enter does is noted from now on, where the next page finds it.
	watched = `sessionStorage.setItem('sent', ''), window.addEventListener('submit', e => sessionStorage.setItem('sent', e.defaultPrevented ? 'by script' : 'as a page')), true`

	// leads is an expression: whether Enter in the element that has the focus leads to a page, where
	// scripts are off and cannot note it.
	leads = `(e => e.matches('input') && e.form !== null && e.form.querySelector('button:not([type=button]), [type=submit]') !== null && e.form.checkValidity())(document.activeElement)`
)

// Pressing Enter in a field of any page, with or without script, decides nothing. If several pages
// have similar forms, the test uses two of them.
func TestEnterDecidesNothing(t *testing.T) {
	d := open(t, small())
	d.tab.Forgive(`status 4\d\d `) // such as of a search that cannot be
	for _, scripts := range []bool{true, false} {
		d.tab.Scripts(scripts)
		pressed, sent, alike := 0, 0, map[string]int{}
		for _, p := range d.pages() {
			d.tab.Goto(p.path)
			for i, kind := range browsertest.Eval[[]string](d.tab, fields+`.map(e => e.name + ' ' + (e.form ? e.form.id + (e.form.getAttribute('action') || '').replace(/\/tools\/.*/, '/tools/') : ''))`) {
				if alike[kind]++; alike[kind] > 2 {
					continue
				}
				d.tab.Goto(p.path)
				what := browsertest.Eval[string](d.tab, fmt.Sprintf(`(e => { e.focus(); return document.activeElement === e ? e.outerHTML : '' })(%s[%d])`, fields, i))
				if what == "" {
					continue // it cannot be seen
				}
				pressed++
				if d.enter(scripts) {
					sent++
				}
				if decided := d.decided(); len(decided) > 0 {
					t.Fatalf("scripts %v: Enter in %s of %s decided %v", scripts, what, p.path, decided)
				}
			}
		}
		if pressed < 10 || sent < 5 {
			t.Errorf("scripts %v: of %d fields Enter sent %d forms: the search for them is broken", scripts, pressed, sent)
		}
		t.Logf("scripts %v: Enter was pressed in %d fields, and sent %d forms", scripts, pressed, sent)
	}
}

// enter types something into the field that has the focus, presses Enter, waits for what that does,
// and reports whether it sent a form.
func (d *fixture) enter(scripts bool) bool {
	d.T.Helper()
	tab := d.tab
	if !browsertest.Eval[bool](tab, `document.activeElement.matches('select, [type=checkbox], [type=radio]')`) {
		tab.Type("x")
	}
	before, sent := tab.Loaded(), ""
	if scripts {
		browsertest.Eval[bool](tab, watched)
		tab.Press("Enter")
		sent = browsertest.Read[string](tab, `sessionStorage.getItem('sent') || ''`)
	} else {
		if browsertest.Eval[bool](tab, leads) {
			sent = "as a page"
		}
		tab.Press("Enter")
	}
	switch sent {
	case "as a page":
		local.Until(d.T, "the page comes to which Enter leads", func() bool { return tab.Loaded() > before })
	case "by script":
		tab.Until("the script is done", `document.querySelector('.htmx-request') === null`)
	}
	return sent != ""
}
