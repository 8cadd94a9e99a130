package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/browsertest"
)

const typed = "I read it twice"

// write opens the page of a tool and types a note.
func (d *fixture) write(id string) {
	d.T.Helper()
	d.tab.Goto(page(id))
	d.tab.Click(note)
	d.tab.Type(typed)
}

// refused presses Approve. The gateway must show the form again with the typed note, and decide
// nothing.
func (d *fixture) refused(why string) {
	d.T.Helper()
	before := len(d.decided())
	answered(d.tab, "Approve", func() { d.tab.Click(`#decide button[value=approve]`) })
	if said := strings.Join(d.tab.Texts(`[role=alert]`), " "); !strings.Contains(said, why) {
		d.T.Errorf("message %q, want %s", said, why)
	}
	if now := len(d.decided()); now != before {
		d.T.Errorf("%d decisions were made", now-before)
	}
	at := browsertest.Eval[string](d.tab, `location.href.split("#")[0]`)
	for _, link := range browsertest.Eval[[]string](d.tab,
		`[...document.querySelectorAll("main a")].map(a => a.href)`) {
		page, _, found := strings.Cut(link, "#")
		if found && page != at || strings.HasSuffix(page, "/approve") {
			d.T.Errorf("a link of the answer leads to %s", link)
		}
	}
}

// wantNote checks that the form has the typed note.
func (d *fixture) wantNote() {
	d.T.Helper()
	if got := d.tab.Value(note); got != typed {
		d.T.Errorf("the note is %q, want the typed %q", got, typed)
	}
}

// Two tabs, or two people, have the same tool open. The second decision does not replace the first.
func TestTwoTabs(t *testing.T) {
	d := open(t, small())
	d.tab.Forgive(`status 409 of `)
	id := d.fleet.Hidden // has findings, whose links lead to the same page
	d.write(id)
	other := d.tab.Again()
	other.Goto(page(id))
	other.Loads("Block", func() { other.Click(`#decide button[value=block]`) })
	d.refused("othing was decided")
	d.wantNote()
	if text := d.tab.Text("main"); !strings.Contains(text, "blocked") {
		t.Errorf("the page does not say that the tool is blocked:\n%s", text)
	}
	d.tab.Loads("Approve, having seen that", func() { d.tab.Click(`#decide button[value=approve]`) })
	if got := d.decided(); got[0].Action != "approve" || got[0].Note != typed {
		t.Errorf("decided was %v", got)
	}
}

// unsent kills the gateway and presses a button. The page says that the form was not sent, and
// keeps what a person typed. Then unsent starts the gateway again.
func (d *fixture) unsent(button, field string) {
	d.T.Helper()
	d.Kill()
	d.tab.Click(button)
	d.tab.SeeText(".unsent", "Not sent: the gateway does not answer. What you typed is still here.")
	if got := d.tab.Value(field); got != typed {
		d.T.Errorf("the field has %q, want the typed %q", got, typed)
	}
	d.Start()
}

// forgiven ignores the faults of a page whose gateway is gone.
const forgiven = `ERR_CONNECTION|ERR_EMPTY_RESPONSE|a script complains: htmx:`

// The gateway dies while a person types, and the person presses the button before and after a
// restart. The decision is made once.
func TestKilledGateway(t *testing.T) {
	d := open(t, small())
	d.tab.Forgive(forgiven)
	const approve = `#decide button[value=approve]`
	d.write(d.fleet.New[5])
	d.unsent(approve, note)
	d.tab.Everywhere("unsent")
	if decided := d.decided(); len(decided) > 0 {
		t.Errorf("the restart decided: %v", decided)
	}
	d.tab.Loads("Approve", func() { d.tab.Click(approve) })
	got := d.decided()
	if len(got) != 1 || got[0].Note != typed || got[0].id() != d.fleet.New[5] {
		t.Errorf("decided was %v", got)
	}

	// The gateway decides, and dies before its answer arrives.
	d.tab.Forgive(`status 409 of `)
	d.write(d.fleet.New[6])
	status := browsertest.Eval[int](
		d.tab,
		`fetch(document.querySelector("`+approve+`").formAction, {
		method: "POST", headers: {"HX-Request": "true", Accept: "text/html"},
		body: new URLSearchParams(new FormData(document.querySelector("#decide"))),
	}).then(a => a.status)`)
	if status != http.StatusNoContent {
		t.Fatalf("the first answer is %d", status)
	}
	d.unsent(approve, note)
	d.refused("othing was decided")
	d.wantNote()
	if got := d.decided(); len(got) != 2 || got[0].id() != d.fleet.New[6] {
		t.Errorf("decided was %v", got)
	}
}

// Nothing of a bulk page is lost either: neither the note nor the ticks.
func TestKilledGatewayInBulk(t *testing.T) {
	d := open(t, small())
	d.tab.Forgive(forgiven)
	b := &bulk{fixture: d}
	b.open()
	all := b.ids("*")
	unread := b.ids(".unread")
	b.click(row(all[len(all)-1], "[name=item]"))
	d.tab.Click("main [name=note]")
	d.tab.Type(typed)
	d.unsent("main form button.main", "main [name=note]")
	answered(d.tab, "Approve", func() { d.tab.Click("main form button.main") })
	if got := d.decided(); len(got) != len(all)-len(unread)-1 || got[0].Note != typed {
		t.Errorf("%d decisions about %d items, with %d not opened", len(got), len(all), len(unread))
	}
}
