package console_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/fleettest"
)

// marks returns the texts that a page marks as changed, without texts for screen readers.
func (d *fixture) marks() []string {
	d.T.Helper()
	return browsertest.Eval[[]string](d.tab, `[...document.querySelectorAll('main :is(ins, del, mark):not(:is(ins, del) mark)')].map(e => {
		const copy = e.cloneNode(true);
		copy.querySelectorAll('.hide').forEach(x => x.remove());
		return copy.textContent.trim();
	})`)
}

// The page marks exactly the changes: one word, one parameter, and one invisible character, which
// it shows as its number.
func TestReviewMarks(t *testing.T) {
	d := open(t, largest(t))
	for name, c := range map[string]struct {
		id, view string
		want     []string
	}{
		"one word":            {d.fleet.Word, "", []string{fleettest.Word}},
		"one word, inline":    {d.fleet.Word, "?view=description", []string{fleettest.Word}},
		"side by side":        {d.fleet.Word, "?view=description&diff=side", []string{fleettest.Word}},
		"only changes":        {d.fleet.Word, "?view=description&only=1", []string{fleettest.Word}},
		"schema of it":        {d.fleet.Word, "?view=input", nil},
		"text of a parameter": {d.fleet.Parameter, "?view=description", nil},
		"new":                 {d.fleet.New[0], "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			d.tab.Goto(page(c.id) + c.view)
			if got := d.marks(); !slices.Equal(got, c.want) {
				t.Errorf("marked: %q, want %q", got, c.want)
			}
		})
	}
	d.tab.Goto(page(d.fleet.Word))
	d.tab.Press("]")
	on := browsertest.Eval[string](d.tab,
		`document.activeElement.tagName + " " + document.querySelector("#said").textContent`)
	if on != "INS Change 1 of 1" {
		t.Errorf("] leads to %s", on)
	}
	d.tab.Goto(page(d.fleet.Parameter))
	if said := d.tab.Text(`main .items`); !strings.Contains(said, "parameter") || !strings.Contains(said, fleettest.Parameter) {
		t.Errorf("text about the new parameter:\n%s", said)
	}
	d.tab.Goto(page(d.fleet.Hidden))
	if got := strings.Join(d.marks(), " "); !strings.Contains(got, "⟨U+200B⟩") {
		t.Errorf("mark of the hidden character: %q", got)
	}
}

// A button or a key undoes a decision, and the audit shows it.
func TestUndo(t *testing.T) {
	d := open(t, small())
	for i, undo := range []func(){
		func() { d.tab.Press("u") },
		func() { d.tab.Click(`#live button`) },
	} {
		id := d.fleet.New[i]
		d.tab.Goto(page(id))
		d.pressA()
		d.tab.SeeText("#live", id)
		if got := d.decided(); got[0].Action != "approve" || got[0].id() != id {
			t.Fatalf("decided was %v", got)
		}
		d.tab.Loads("undo", undo)
		if got := d.decided(); got[0].Action != "undo" || got[0].id() != id || got[0].Actor != "kim" {
			t.Errorf("the audit's newest entry is %v", got[0])
		}
		d.tab.Goto("/admin")
		d.tab.SeeText("main", "43")
	}
}
