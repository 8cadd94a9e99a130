package console_test

import (
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
	d.tab.Loads("Approve", func() { d.tab.Click(`#decide button[value=approve]`) })
	if said := strings.Join(d.tab.Texts(`[role=alert]`), " "); !strings.Contains(said, why) {
		d.T.Errorf("message %q, want %s", said, why)
	}
	if now := len(d.decided()); now != before {
		d.T.Errorf("%d decisions were made", now-before)
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
	id := d.fleet.New[0]
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

// The gateway dies while a person types, and the browser shows an error. After a restart of the
// gateway, the browser's back button shows the form with the typed note, and a reload sends the
// form again.
func TestKilledGateway(t *testing.T) {
	d := open(t, small())
	d.tab.Forgive(`ERR_CONNECTION|ERR_EMPTY_RESPONSE|the browser complains`)
	die := func(id string) {
		t.Helper()
		d.write(id)
		d.Kill()
		d.tab.Loads("Approve, with nobody there", func() { d.tab.Click(`#decide button[value=approve]`) })
		if said := d.tab.Text("body"); !strings.Contains(said, "ERR_CONNECTION_REFUSED") {
			t.Errorf("the browser shows %s", said)
		}
		d.Start()
	}
	die(d.fleet.New[5])
	browsertest.Eval[bool](d.tab, `setTimeout(() => history.back()) > 0`)
	d.tab.See(note)
	d.wantNote()
	if decided := d.decided(); len(decided) > 0 {
		t.Errorf("going back decided: %v", decided)
	}
	d.tab.Loads("Approve", func() { d.tab.Click(`#decide button[value=approve]`) })
	if got := d.decided(); len(got) != 1 || got[0].Note != typed || got[0].id() != d.fleet.New[5] {
		t.Errorf("decided was %v", got)
	}
	die(d.fleet.New[6])
	d.tab.Reload()
	d.tab.SeeText("main", d.fleet.New[6])
	if got := d.decided(); len(got) != 2 || got[0].Note != typed || got[0].id() != d.fleet.New[6] {
		t.Errorf("decided was %v", got)
	}
}
