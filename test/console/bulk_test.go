package console_test

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/fleettest"
)

// A bulk is a person who decides about several items with the mouse.
type bulk struct {
	*fixture
	clicks int
}

func (b *bulk) click(selector string) {
	b.T.Helper()
	b.clicks++
	b.tab.Click(selector)
}

func (b *bulk) follow(what, selector string) {
	b.T.Helper()
	b.tab.Loads(what, func() { b.click(selector) })
}

// open goes from the inbox to the bulk page of all items that wait.
func (b *bulk) open() {
	b.T.Helper()
	b.tab.Goto("/admin")
	b.follow("Decide about several", `a.main + a.button`)
	b.click(`.tickall`)
	b.follow("Approve…", `button[value=approve]`)
}

// row returns the selector of a row's part.
func row(id, part string) string {
	return fmt.Sprintf(`li:has([aria-label=%q]) %s`, id, part)
}

// ids returns the ids in the rows that have a part.
func (b *bulk) ids(part string) []string {
	b.T.Helper()
	return browsertest.Eval[[]string](
		b.tab,
		`[...document.querySelectorAll('.folds li:has(`+part+`) [name=item]')].map(e => e.ariaLabel)`,
	)
}

// unfold opens the definitions of rows, one after the other.
func (b *bulk) unfold(ids ...string) {
	b.T.Helper()
	for _, id := range ids {
		b.click(row(id, "summary"))
		b.isOpen(id)
	}
}

// isOpen waits for the definition of a row.
func (b *bulk) isOpen(id string) {
	b.T.Helper()
	b.tab.See(row(id, ".unfolded :is(.server, .items, p)"))
	b.tab.See(row(id, ".viewed"))
}

// approve types a note and presses the button.
func (b *bulk) approve() {
	b.T.Helper()
	b.click(`main [name=note]`)
	b.tab.Type("ok")
	answered(b.tab, "Approve", func() { b.click(`main form button.main`) })
}

// shown returns how the definitions of the approved items were shown, by the audit, and the notes.
func (b *bulk) shown(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	type line struct{ Action, Server, Tool, Actor, Note, Shown string }
	for _, e := range agenttest.Pages[line](&b.Client, "audit", "entries", "") {
		if id := e.Server + ":" + e.Tool; e.Action == "approve" && e.Actor == "kim" &&
			out[id] == "" {
			out[id] = "as " + e.Shown + ", " + e.Note
		}
	}
	return out
}

// A person decides about 43 of 527 real tools on one page. First they open only what they have to,
// revert the decision with one key, and then open all.
func TestBulk(t *testing.T) {
	d := open(t, largest(t))
	b := &bulk{fixture: d}
	b.open()
	all, must := b.ids("*"), b.ids(".unread")
	for _, id := range []string{d.fleet.Word, d.fleet.Parameter, d.fleet.Hidden} {
		if !slices.Contains(must, id) {
			t.Errorf("nobody has to open %s, which has changed", id)
		}
	}
	if len(all) != 43 || len(must) == len(all) {
		t.Errorf("the page has %d items, and %d have to be opened", len(all), len(must))
	}
	d.tab.Presses()
	b.unfold(must...)
	if left := d.tab.Texts(".unread"); len(left) > 0 || len(d.decided()) > 0 {
		t.Errorf(
			"%d rows still say that they have to be opened; decided was %v",
			len(left),
			d.decided(),
		)
	}
	d.tab.Everywhere("bulk-opened")
	b.approve()
	t.Logf(
		"%d clicks and %d keys for 43 tools, %d definitions opened",
		b.clicks,
		len(d.tab.Presses()),
		len(must),
	)
	shown := b.shown(t)
	for _, id := range all {
		want := "as , ok"
		if slices.Contains(must, id) {
			want = "as opened, ok"
		}
		if shown[id] != want {
			t.Errorf("%s was shown %q, want %q", id, shown[id], want)
		}
	}
	d.tab.Everywhere("done")
	d.tab.See(`main form button[value=undo]`)
	d.tab.Loads("u", func() { d.tab.Press("u") })
	d.tab.Goto("/admin")
	d.tab.SeeText("main", "43")

	b.clicks = 0
	b.open()
	b.unfold(all...)
	b.approve()
	t.Logf("%d clicks and %d keys for 43 tools, all opened", b.clicks, len(d.tab.Presses()))
	for id, how := range b.shown(t) {
		if how != "as opened, ok" {
			t.Errorf("%s was shown %q, and then opened", id, how)
		}
	}
	d.tab.Goto("/admin")
	d.tab.SeeText("main", "Nothing waits")
}

// The tick of a group ticks its rows, and no longer counts after a person unticks one of them.
func TestTickOfAGroup(t *testing.T) {
	d := open(t, small())
	d.tab.Goto("/admin/tools?status=pending_approval")
	ticked := func() []int {
		return browsertest.Eval[[]int](d.tab, `["group", "item"].map(
			n => document.querySelectorAll("tbody:nth-of-type(2) [name=" + n + "]:checked").length)`)
	}
	rows := len(browsertest.Eval[[]string](d.tab,
		`[...document.querySelectorAll("tbody:nth-of-type(2) [name=item]")].map(e => e.value)`))
	d.tab.Click("tbody:nth-of-type(2) [name=group]")
	if got := ticked(); !slices.Equal(got, []int{1, rows}) || rows < 2 {
		t.Errorf("ticked are %v of a group with %d rows", got, rows)
	}
	d.tab.Press("j", "j", "j", "j", "x") // the first group has three rows
	if got := ticked(); !slices.Equal(got, []int{0, rows - 1}) {
		t.Errorf("after a row was unticked, ticked are %v", got)
	}
}

// The bulk page works with keys: j and k lead to the rows, x ticks, Enter opens. Enter in the note
// decides nothing. An unticked item is not decided.
func TestBulkByKeys(t *testing.T) {
	d := open(t, small())
	b := &bulk{fixture: d}
	b.open()
	d.tab.Everywhere("sheet")
	all := b.ids("*")
	d.tab.Press("j", "x", "j", "Enter")
	b.isOpen(all[1])
	d.tab.Click(`main [name=note]`)
	d.tab.Type("seen together")
	answered(d.tab, "Enter in the note", func() { d.tab.Press("Enter") })
	if decided, kept := d.decided(), d.tab.Value("main [name=note]"); len(decided) > 0 ||
		kept != "seen together" {
		t.Fatalf("Enter in the note decided %v and left the note %q", decided, kept)
	}
	if now := b.ids("*"); !slices.Equal(now, all[1:]) {
		t.Errorf("the page has %q, want all but the unticked %s", now, all[0])
	}
	d.tab.See(row(all[1], ".viewed"))
	skipped := b.ids(".unread")
	answered(d.tab, "Approve", func() { b.click(`main form button.main`) })
	var ids []string
	for _, e := range d.decided() {
		ids = append(ids, e.id())
	}
	for _, id := range all {
		want := id != all[0] && !slices.Contains(skipped, id)
		if got := slices.Contains(ids, id); got != want {
			t.Errorf("%s was approved: %v, want %v", id, got, want)
		}
	}
	d.tab.Everywhere("done-skipped")
	d.tab.Loads(
		"the skipped",
		func() { d.tab.ClickText("main button", "Look at the skipped again") },
	)
	if again := b.ids("*"); !slices.Equal(
		slices.Sorted(slices.Values(again)),
		slices.Sorted(slices.Values(skipped)),
	) {
		t.Errorf("the page about the skipped has %q, want %q", again, skipped)
	}
}

// Without scripts, the page of a row's link counts as viewed, and the tick of a group chooses its
// items.
func TestBulkWithoutScripts(t *testing.T) {
	d := open(t, small())
	d.tab.Scripts(false)
	b := &bulk{fixture: d}
	d.tab.Goto("/admin/tools?status=pending_approval")
	server := strings.Split(d.fleet.Word, ":")[0]
	b.click(fmt.Sprintf(`[name=group][value=%q]`, server))
	b.follow("Approve…", `button[value=approve]`)
	unread := b.ids(".unread")
	b.click(row(unread[0], "summary"))
	d.tab.See(row(unread[0], `a[target=_blank]`))
	link := browsertest.Eval[string](
		d.tab,
		`document.querySelector(`+fmt.Sprintf("%q", row(unread[0], "a"))+`).href`,
	)
	other := d.tab.Again()
	other.Goto(link)
	b.approve()
	shown := b.shown(t)
	if shown[unread[0]] != "as opened, ok" {
		t.Errorf("%s, which was open in another tab, was shown %q", unread[0], shown[unread[0]])
	}
	for _, id := range unread[1:] {
		if shown[id] != "" {
			t.Errorf("%s was approved, but not opened", id)
		}
	}
	d.tab.SeeText("main", "Skipped")
}

// If a text cannot be loaded, the row says so, and nothing on the page is lost.
func TestFoldNotLoaded(t *testing.T) {
	d := open(t, small())
	d.tab.Forgive(`status 40[14] of `)
	b := &bulk{fixture: d}
	b.open()
	id := b.ids("*")[0]
	d.tab.Fill("main [name=note]", "typed")
	other := d.tab.Again()
	other.Goto("/admin/me")
	other.Loads("Sign out", func() { other.ClickText("header button", "Sign out") })
	b.click(row(id, "summary"))
	d.tab.SeeText(row(id, ".unfolded"), "Not loaded, so not viewed")
	if note := d.tab.Value("main [name=note]"); note != "typed" {
		t.Errorf("the note is %q", note)
	}
	if on := browsertest.Eval[bool](d.tab, fmt.Sprintf(`document.querySelector(%q).hidden`, row(id, ".viewed"))); !on {
		t.Error("the row says that it was viewed")
	}
}

// A hostile definition in a row is text. If all rows open at once, each counts as viewed.
func TestHostileFolds(t *testing.T) {
	d, tools := openHostile(t)
	b := &bulk{fixture: d}
	b.open()
	d.fitsEverywhere()
	all := b.ids("*")
	browsertest.Eval[bool](d.tab,
		`document.querySelectorAll(".fold").forEach(f => { f.open = true; }) || true`)
	for _, id := range all {
		b.isOpen(id)
	}
	d.fitsEverywhere()
	if n := browsertest.Eval[int](d.tab, foreign); n > 0 {
		t.Errorf("%d elements of the page come from a definition", n)
	}
	if found := browsertest.Eval[[]string](d.tab, unseen); len(found) > 0 {
		t.Errorf("the page has characters that nobody sees: %q", found)
	}
	d.tab.Shot("hostile-bulk")
	d.tab.Click("main [name=note]")
	answered(d.tab, "Enter in the note", func() { d.tab.Press("Enter") })
	if viewed := b.ids(".viewed:not([hidden])"); !slices.Equal(viewed, all) {
		t.Errorf("after all were opened, viewed are %q of %q", viewed, all)
	}
	for _, name := range tools {
		if name == fleettest.TooLarge {
			continue
		}
		path := "/admin/tools/hostile/" + url.PathEscape(name) + "?fold="
		if a := d.get(path); len(a.Body) > maxHostile ||
			!regexp.MustCompile(`id="fold"`).MatchString(a.Body) {
			t.Errorf("%s has %d bytes, want at most %d", path, len(a.Body), maxHostile)
		}
	}
}
