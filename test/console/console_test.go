// Package console_test tests the console in Chromium, with the real program and the fleet of
// package fleettest. A person can decide with only the keyboard, and without scripts. Each page is
// accessible, fits the window and is small. Hostile definitions appear as text, and a person cannot
// decide by mistake.
package console_test

import (
	"net/http"
	"net/url"
	"os"
	"regexp"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/fleettest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
)

func TestMain(m *testing.M) {
	os.Exit(programtest.Main(func() int { return browsertest.Main(m) }))
}

// A fixture contains the program, a fleet after its update, and a browser in which kim is signed
// in.
type fixture struct {
	*programtest.Program
	fleet *fleettest.Fleet
	items fleettest.Items // set by openItems
	tab   *browsertest.Tab
}

// small returns a catalog that is fast to serve and has all kinds of changes.
func small() fleettest.Catalog { return fleettest.MadeUp(12, 140) }

// open starts a console. It makes the test parallel, because tests mostly wait for the browser.
func open(t *testing.T, c fleettest.Catalog) *fixture {
	t.Helper()
	t.Parallel()
	d := &fixture{}
	d.fleet, d.Program = fleettest.Run(t, c, "--actor", "kim")
	d.begin(t)
	return d
}

// openItems is [open] with prompts and resources at two of the servers.
func openItems(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	d := &fixture{}
	d.fleet, d.items, d.Program = fleettest.RunItems(t, programtest.Access{}, small(), "--actor", "kim")
	d.begin(t)
	return d
}

// begin opens a browser and signs in.
func (d *fixture) begin(t *testing.T) {
	t.Helper()
	d.tab = browsertest.Open(t, d.URL)
	d.signIn(d.tab)
}

// signIn opens the link that the program printed, and presses its only button.
func (d *fixture) signIn(tab *browsertest.Tab) {
	d.T.Helper()
	tab.Goto(d.Link)
	tab.Loads("the button of the link", func() { tab.Click("main button") })
	if at := tab.Path(); at != "/admin" {
		d.T.Fatalf("the link leads to %s", at)
	}
}

// answered calls act, which sends a form by script, and waits until the page shows the answer.
func answered(tab *browsertest.Tab, what string, act func()) {
	tab.T.Helper()
	browsertest.Eval[bool](tab, `(document.querySelector("#main").dataset.sent = "", true)`)
	act()
	tab.Until(what+" is answered", `document.querySelector("#main:not([data-sent])")`)
}

// cookie returns the cookie header with the session of the tab.
func (d *fixture) cookie() string {
	d.T.Helper()
	return "portcullis=" + d.tab.Cookie("portcullis")
}

// get requests a path with the session of the tab, but without the browser.
func (d *fixture) get(path string) agenttest.Answer {
	d.T.Helper()
	return d.Do(http.MethodGet, path, "", http.Header{"Accept": {"text/html"}, "Cookie": {d.cookie()}})
}

// post sends a form with the session and a CSRF token of the tab, but without the browser.
func (d *fixture) post(path string, form url.Values) agenttest.Answer {
	d.T.Helper()
	m := regexp.MustCompile(`name="csrf" value="([^"]*)"`).FindStringSubmatch(d.get(page(d.fleet.New[0])).Body)
	if m == nil {
		d.T.Fatal("a page with a form has no CSRF token")
	}
	form.Set("csrf", m[1])
	return d.Do(http.MethodPost, path, form.Encode(), http.Header{
		"Accept": {"text/html"}, "Cookie": {d.cookie()}, "Content-Type": {"application/x-www-form-urlencoded"}, "Origin": {d.URL}, "Sec-Fetch-Site": {"same-origin"},
	})
}

// largest returns the real catalog, or without it a made-up catalog of the same size.
func largest(t *testing.T) fleettest.Catalog {
	t.Helper()
	if os.Getenv("PORTCULLIS_DATA") == "" {
		return fleettest.MadeUp(70, 527)
	}
	return local.Tools(t)
}

// page returns the path of the page of a tool, a prompt or a resource.
func page(id string) string {
	parsed, _ := tool.ParseID(id) // valid, because the test wrote it
	return approval.Link("/", parsed)[1:]
}

// An entry is the audit event of a decision.
type entry struct {
	Action, Server, Tool, Actor, Note string
	Kind                              tool.Kind
}

// id returns the id of the item of the event.
func (e entry) id() string { return tool.ID{Server: e.Server, Name: e.Tool, Kind: e.Kind}.String() }

// decided returns people's decisions so far, newest first.
func (d *fixture) decided() []entry {
	d.T.Helper()
	var people []entry
	for _, e := range agenttest.Pages[entry](&d.Client, "audit", "entries", "") {
		if e.Actor != "sync" {
			people = append(people, e)
		}
	}
	return people
}
