package unlock_test

import (
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/test/browsertest"
)

// A person is a user of the issuer.
type person struct {
	subject, name string
	groups        []string
}

// opens opens a page in a new browser, signs in, and waits for the page.
func (w *world) opens(p person, link string) *browsertest.Tab {
	w.T.Helper()
	tab := browsertest.Open(w.T, w.URL, w.issuer.URL)
	w.issuer.Become(p.subject, map[string]any{"email": p.name, "email_verified": true, "groups": p.groups})
	tab.Goto(link)
	tab.ClickText("main button", "Sign in with "+strings.TrimPrefix(w.issuer.URL, "http://"))
	tab.SeeText("h1", "Issuer")
	tab.Click("#agree")
	tab.Until("the browser is at "+link, "location.href === "+strconv.Quote(link))
	return tab
}

// asks opens a link as the agent's user, enters a reason, and presses the button. It returns the id
// of the request.
func (w *world) asks(p person, link, why string) (id string) {
	w.T.Helper()
	tab := w.opens(p, link)
	tab.Fill("input[name=why]", why)
	tab.Loads("the question", func() { tab.Click("button[name=ask]") })
	tab.SeeText(".message", "You asked")
	id, _, _ = strings.Cut(strings.TrimPrefix(tab.Path(), "/admin/ask/"), "?")
	if !strings.HasPrefix(id, "R-") {
		w.T.Fatalf("the form of the page leads to %s", tab.Location())
	}
	return id
}

// A verdict is a button of the page of a request, and the fields to fill in before.
type verdict struct {
	value, reason string
	minutes       int
}

// decides opens the link of a message as p, and presses a button.
func (w *world) decides(p person, link string, v verdict) *browsertest.Tab {
	w.T.Helper()
	tab := w.opens(p, link)
	w.press(tab, v)
	return tab
}

// press decides on the page of an open request.
func (w *world) press(tab *browsertest.Tab, v verdict) {
	w.T.Helper()
	if v.reason != "" {
		tab.Fill("input[name=reason]", v.reason)
	}
	if v.minutes > 0 {
		tab.Fill("input[name=minutes]", strconv.Itoa(v.minutes))
	}
	button := "#decide button[value=" + v.value + "]"
	tab.Loads("the decision", func() { tab.Click(button) })
	tab.Until("the button is gone", "!document.querySelector('"+button+"')") // wait for the next page
}
