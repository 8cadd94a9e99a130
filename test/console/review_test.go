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
		d.tab.Loads("a", func() { d.tab.Press("a") })
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

// A person can approve several tools together on one page. Destructive tools, and tools with a
// finding, are included only after the person opened each of them. The page names the tools that it
// leaves out.
func TestBulk(t *testing.T) {
	d := open(t, small())
	tab := d.tab
	tick := func() {
		t.Helper()
		tab.Goto("/admin/tools?status=pending_approval")
		tab.Click(`.tickall`)
		tab.Loads("Approve…", func() { tab.Click(`button[value=approve]`) })
	}
	on, out := `main ol.rows a`, `main ul.rows a`
	tick()
	chosen, left := tab.Texts(on), tab.Texts(out)
	if len(chosen)+len(left) != 43 || len(left) == 0 || len(chosen) == 0 || !slices.Contains(left, d.fleet.Hidden) {
		t.Errorf("the page has %q and leaves out %q", chosen, left)
	}
	if decided := d.decided(); len(decided) > 0 {
		t.Fatalf("opening the page decided %v", decided)
	}
	tab.Everywhere("sheet")
	opened := left[slices.IndexFunc(left, func(id string) bool { return slices.Contains(d.fleet.New, id) })]
	tab.Goto(page(opened))
	tick()
	if again := tab.Texts(on); len(again) != len(chosen)+1 || !slices.Contains(again, opened) {
		t.Errorf("%s was opened, but the page has %q", opened, again)
	}
	tab.Click(`main [name=note]`)
	tab.Type("seen together")
	tab.Loads("Enter in the note", func() { tab.Press("Enter") })
	if decided := d.decided(); len(decided) > 0 {
		t.Fatalf("Enter in the note decided %v", decided)
	}
	tick()
	tab.Click(`main [name=note]`)
	tab.Type("seen together")
	tab.Loads("the button", func() { tab.Click(`main form button[value=approve]`) })
	tab.Everywhere("done")
	decided := d.decided()
	if len(decided) != len(chosen)+1 {
		t.Errorf("%d decisions, want %d", len(decided), len(chosen)+1)
	}
	for _, e := range decided {
		if e.Action != "approve" || e.Note != "seen together" || !slices.Contains(append(chosen, opened), e.id()) {
			t.Errorf("the audit says %+v", e)
		}
	}
}
