package console_test

import (
	"fmt"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/local"
)

const (
	// fields is an expression for the fields of a page in which a person could press Enter. If
	// fields of a form have the same name, it contains only the first.
	fields = `[...document.querySelectorAll('input:not([type=hidden], [type=submit], [type=button]), textarea, select')].filter((e, i, all) => all.findIndex(x => x.name === e.name && x.form === e.form) === i)`

	// watched is an expression that records later submits in the session storage, where the next
	// page can read them.
	watched = `sessionStorage.setItem('sent', ''), window.addEventListener('submit', e => sessionStorage.setItem('sent', e.defaultPrevented ? 'by script' : 'as a page')), true`

	// leads is an expression that reports whether Enter in the focused element opens a page. The
	// test uses it on pages without scripts, which cannot record submits.
	leads = `(e => e.matches('input') && e.form !== null && e.form.querySelector('button:not([type=button]), [type=submit]') !== null && e.form.checkValidity())(document.activeElement)`
)

// Pressing Enter in a field of any page, with or without script, decides nothing. If several pages
// have similar forms, the test uses two of them.
func TestEnterDecidesNothing(t *testing.T) {
	d := open(t, small())
	d.tab.Forgive(`status 4\d\d `) // such as an invalid search
	for _, scripts := range []bool{true, false} {
		d.tab.Scripts(scripts)
		pressed, sent, alike := 0, 0, map[string]int{}
		for _, p := range d.pages() {
			d.tab.Goto(p.path)
			for i, kind := range browsertest.Eval[[]string](d.tab, fields+`.map(e => e.name + ' ' + (e.form ? e.form.id + (e.form.getAttribute('action') || '').replace(/\/tools\/.*/, '/tools/') : ''))`) {
				if alike[kind]++; alike[kind] > 1 {
					continue
				}
				d.tab.Goto(p.path)
				what := browsertest.Eval[string](d.tab, fmt.Sprintf(`(e => { e.focus(); return document.activeElement === e ? e.outerHTML : '' })(%s[%d])`, fields, i))
				if what == "" {
					continue // it is not visible
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
			t.Errorf("scripts %v: %d fields, %d sent forms: the search for fields is broken", scripts, pressed, sent)
		}
		t.Logf("scripts %v: Enter was pressed in %d fields, and sent %d forms", scripts, pressed, sent)
	}
}

// enter types a character into the focused field, presses Enter, waits for the result, and reports
// whether Enter sent a form.
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
		local.Until(d.T, "the page that Enter opens is loaded", func() bool { return tab.Loaded() > before })
	case "by script":
		tab.Until("the script is done", `document.querySelector('.htmx-request') === null`)
	}
	return sent != ""
}
