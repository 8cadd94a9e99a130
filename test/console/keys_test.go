package console_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/browsertest"
)

// maxPresses is the limit of key presses to decide about 43 tools, starting at the inbox.
const maxPresses = 150

// note selects the field for the note of a decision about one tool.
const note = `#decide [name=note]`

// needsNote reports whether the tool on the page needs a note for its approval.
func (d *fixture) needsNote() bool {
	d.T.Helper()
	return browsertest.Eval[bool](d.tab, `Boolean(document.querySelector('`+note+`').dataset.needed)`)
}

// A person decides about all pending tools with only the keyboard. They approve the tool with a
// severe finding with a note, block one tool, and approve the others.
func TestDecideByKeys(t *testing.T) {
	d := open(t, largest(t))
	tab := d.tab
	tab.Goto("/admin")
	tab.SeeText("main", "43")
	tab.Presses() // drop earlier key presses
	for !browsertest.Eval[bool](tab, `document.activeElement.matches('a') && document.activeElement.innerText.includes('Review all 43')`) {
		tab.Press("Tab")
	}
	tab.Loads("Enter", func() { tab.Press("Enter") })
	var severe []string
	blocked := ""
	for n := 0; tab.Has(note); n++ {
		if n == len(d.fleet.Waiting()) {
			t.Fatalf("after %d decisions there is still a form, on %s", n, tab.Path())
		}
		id := tab.Text("main h1")
		if focused := browsertest.Eval[string](tab, `document.activeElement.tagName`); focused != "H1" {
			t.Errorf("on the page of %s the focus is on %s", id, focused)
		}
		switch {
		case d.needsNote():
			severe = append(severe, id)
			d.armed()
			tab.Press("a") // moves the focus to the note instead
			tab.Until("the note has the focus", `document.activeElement.name === 'note'`)
			if n := len(d.decided()); len(severe) == 1 && n > 0 {
				t.Fatalf("%s has a severe finding, but was approved without a note", id)
			}
			tab.Type("ok")
			tab.Press("Escape")
			d.pressA()
		case blocked == "" && slices.Contains(d.fleet.New, id):
			blocked = id
			tab.Loads("b", func() { tab.Press("b") })
		default:
			d.pressA()
		}
	}
	presses := tab.Presses()
	tab.SavePresses(t.Name()+".txt", presses)
	if len(presses) > maxPresses {
		t.Errorf("it took %d key presses, want at most %d: %q", len(presses), maxPresses, presses)
	}
	t.Logf("%d key presses, %d notes", len(presses), len(severe))
	d.allDecided(t, severe, blocked)
}

// armed waits until the page accepts the key for approvals.
func (d *fixture) armed() {
	d.T.Helper()
	d.tab.Until("the key for approvals works", `"armed" in document.body.dataset`)
}

// pressA approves the item on the page with a key.
func (d *fixture) pressA() {
	d.T.Helper()
	d.armed()
	d.tab.Loads("a", func() { d.tab.Press("a") })
}

// For 600 ms after a page has appeared, the key for approvals has no effect, because a person may
// have pressed it for the page before.
func TestKeyOfTheLastPage(t *testing.T) {
	d := open(t, small())
	d.tab.Before(`{
		const wait = window.setTimeout;
		window.later = [];
		window.setTimeout = (f, ms, ...more) => ms === 600 ? later.push(f) : wait(f, ms, ...more);
	}`)
	d.tab.Goto(page(d.fleet.New[0]))
	d.tab.Until("the page has appeared", `later.length === 1`)
	at := d.tab.Loaded()
	d.tab.Press("a")
	d.tab.Until("the page says that nothing was decided",
		`document.querySelector("#said").textContent.startsWith("Nothing was decided")`)
	if decided := d.decided(); len(decided) > 0 || d.tab.Loaded() != at {
		t.Fatalf("the key decided %v", decided)
	}
	browsertest.Eval[bool](d.tab, `later[0]() || true`)
	d.pressA()
	if decided := d.decided(); len(decided) != 1 || decided[0].id() != d.fleet.New[0] {
		t.Errorf("after 600 ms the key decided %v", decided)
	}
}

// A theme applies to every page, also without scripts, and if the system prefers another one.
func TestTheme(t *testing.T) {
	d := open(t, small())
	const light, dark = "rgb(247, 247, 248)", "rgb(18, 19, 22)"
	for _, tt := range []struct {
		button          string
		inLight, inDark string
	}{{"Dark", dark, dark}, {"Light", light, light}, {"As the system", light, dark}} {
		for _, scripts := range []bool{true, false} {
			d.tab.Scripts(scripts)
			d.tab.Goto("/admin/me")
			d.tab.Loads(tt.button, func() { d.tab.ClickText("main button", tt.button) })
			d.tab.Goto("/admin/tools")
			for look, want := range map[int]string{0: tt.inLight, 1: tt.inDark} {
				d.tab.Look(browsertest.Looks[look])
				got := browsertest.Eval[string](
					d.tab,
					`getComputedStyle(document.body).backgroundColor`,
				)
				if got != want {
					t.Errorf(
						"%s in look %d, scripts %v: the page is %s, want %s",
						tt.button,
						look,
						scripts,
						got,
						want,
					)
				}
			}
		}
	}
}

// allDecided checks the decision about each tool that was pending.
func (d *fixture) allDecided(t *testing.T, severe []string, blocked string) {
	t.Helper()
	if left := agenttest.Pages[struct{ ID string }](&d.Client, "tools", "tools", "status=pending_approval"); len(left) > 0 {
		t.Errorf("%d tools still wait: %v", len(left), left)
	}
	if !slices.Contains(severe, d.fleet.Hidden) {
		t.Errorf("a note was needed for %q, want it for %s", severe, d.fleet.Hidden)
	}
	notes := map[string]string{}
	for _, e := range d.decided() {
		notes[e.id()] = fmt.Sprintf("%s by %s: %q", e.Action, e.Actor, e.Note)
	}
	for _, id := range d.fleet.Waiting() {
		want := `approve by kim: ""`
		switch {
		case id == blocked:
			want = `block by kim: ""`
		case slices.Contains(severe, id):
			want = `approve by kim: "ok"`
		}
		if notes[id] != want {
			t.Errorf("%s: %s, want %s", id, notes[id], want)
		}
	}
	if len(notes) != len(d.fleet.Waiting()) {
		t.Errorf("decisions about %d tools, want %d", len(notes), len(d.fleet.Waiting()))
	}
}

// People who dictate to the browser, or rest a hand on the keyboard, can turn off single-key
// shortcuts. Then the keys do nothing, and every action has a button.
func TestKeysOff(t *testing.T) {
	d := open(t, small())
	tab, id := d.tab, d.fleet.New[0]
	tab.Goto(page(id))
	tab.Press("?")
	tab.See("dialog")
	tab.Everywhere("keys")
	tab.Press("Escape")
	tab.Gone("dialog")
	tab.Goto("/admin/me")
	tab.Loads("the switch", func() { tab.ClickText("main button", "Turn them off") })
	other := tab.Again()
	for _, on := range []*browsertest.Tab{tab, other} {
		for _, path := range []string{page(id), "/admin/tools?status=pending_approval", "/admin"} {
			on.Goto(path)
			at := on.Loaded()
			on.Press("a", "b", "s", "u", "j", "k", "x", "/", "n", "?")
			if focused := browsertest.Read[string](on, `document.activeElement.tagName`); focused != "BODY" && focused != "H1" {
				t.Errorf("%s: disabled keys move the focus to %s", path, focused)
			}
			if on.Has("dialog[open]") || on.Has(":checked:is([type=checkbox])") || on.Loaded() != at {
				t.Errorf("%s: disabled keys have an effect", path)
			}
		}
	}
	tab.Goto(page(id))
	tab.Loads("the button", func() { tab.Click(`#decide button[value=approve]`) })
	if got := d.decided(); len(got) != 1 || got[0].id() != id {
		t.Errorf("decided was %v", got)
	}
	tab.Goto("/admin/me")
	tab.Loads("the switch", func() { tab.ClickText("main button", "Turn them on") })
	tab.Goto(page(d.fleet.New[1]))
	d.pressA()
	if got := d.decided(); len(got) != 2 {
		t.Errorf("decided was %v", got)
	}
}
