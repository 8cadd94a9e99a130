package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/browsertest"
)

// The list follows the filters without a reload. The address contains the filters, and keys work in
// the new list.
func TestFilterLive(t *testing.T) {
	d := open(t, small())
	tab := d.tab
	server, name, _ := strings.Cut(d.fleet.Word, ":")
	tab.Goto("/admin/tools")
	pages := tab.Loaded()
	tab.Press("/")
	tab.Type(name)
	tab.Until("the tool is found", `[...document.querySelectorAll('#list tbody a')].length > 0 && [...document.querySelectorAll('#list tbody a')].every(a => a.innerText.includes('`+name+`'))`)
	tab.Until("the address contains the search", `location.search.includes('q=`+name+`')`)
	tab.Until("the page announces the number of tools", `[...document.querySelectorAll('[role=status]')].some(e => /\d+\stool/.test(e.textContent))`)
	tab.Press("Enter") // must change nothing
	browsertest.Eval[bool](tab, `(s => { s.value = '`+server+`'; s.dispatchEvent(new Event('change', {bubbles: true})); return true })(document.querySelector('[name=server]'))`)
	tab.Until("the server is chosen as well", `location.search.includes('server=`+server+`')`)
	tab.SeeText("#list tbody a", name)
	if n := tab.Loaded() - pages; n != 0 {
		t.Errorf("the filters loaded %d pages, want 0", n)
	}
	tab.Press("Escape") // clears the search
	tab.Until("the search is over", `!location.search.includes('q=') && document.querySelectorAll('#list tbody a').length > 10`)
	tab.Press("j")
	if at := browsertest.Eval[string](tab, `document.activeElement.innerText`); !strings.Contains(at, name) { // a pending tool is the first
		t.Errorf("j leads to %q", at)
	}
	tab.Loads("Enter", func() { tab.Press("Enter") })
	if at := tab.Path(); !strings.HasPrefix(at, page(d.fleet.Word)) {
		t.Errorf("Enter opens %s", at)
	}
}

// An open inbox shows the decisions of others.
func TestInboxPolls(t *testing.T) {
	d := open(t, small())
	tab := d.tab
	tab.Goto("/admin")
	pages := tab.Loaded()
	var seen struct{ Hash string }
	d.Ask(http.StatusOK, page(d.fleet.New[0]), nil, &seen)
	d.Ask(http.StatusOK, page(d.fleet.New[0])+"/approve", map[string]any{"hash": seen.Hash}, nil)
	browsertest.Eval[bool](tab, `document.dispatchEvent(new Event('visibilitychange'))`) // as if the person returns to the tab
	tab.Until("the count of the inbox is one less", `document.title.startsWith('(42)') && document.querySelector('#count').innerText == '42'`)
	tab.SeeText("main", d.fleet.New[0])
	if tab.Loaded() != pages {
		t.Error("the inbox was reloaded")
	}
}
