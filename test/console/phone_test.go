package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/browsertest"
)

// phone is the window of a usual phone.
var phone = browsertest.Look{Name: "390-light", Width: 390, Height: 844, Zoom: 1, Phone: true}

// unreachable is an expression for the visible buttons of the form for decisions that are outside
// the window or lower than 44 px.
const unreachable = `[...document.querySelectorAll('#decide :is(button, summary):not(.hide)')].
	filter(e => e.checkVisibility()).map(e => [e.innerText, e.getBoundingClientRect()]).
	filter(([, r]) => r.top < 0 || r.bottom > innerHeight ||
		r.left < 0 || r.right > innerWidth || r.height < 44).
	map(([text, r]) => text + JSON.stringify(r))`

// reachable checks the buttons on the page: a person sees exactly these without scrolling.
func (d *fixture) reachable(want string) {
	d.T.Helper()
	d.tab.See("#decide button")
	if y := browsertest.Eval[int](d.tab, `scrollY`); y != 0 {
		d.T.Errorf("%s begins at %d px", d.tab.Path(), y)
	}
	shown := d.tab.Texts(`#decide :is(button, summary):not(.hide)`)
	if got := strings.Join(shown, ", "); got != want {
		d.T.Errorf("%s shows %q, want %q", d.tab.Path(), got, want)
	}
	if bad := browsertest.Eval[[]string](d.tab, unreachable); len(bad) > 0 {
		d.T.Errorf("%s: %q", d.tab.Path(), bad)
	}
	top := browsertest.Eval[float64](d.tab,
		`document.querySelector('.top').getBoundingClientRect().height`)
	if top > 60 {
		d.T.Errorf("%s: the header is %.0f px high, not one line", d.tab.Path(), top)
	}
}

// On a phone, the pages of a tool and of a request show the buttons of a decision without
// scrolling. The link of a request and one button are two taps. The menu has all other pages.
func TestPhone(t *testing.T) {
	g := openGate(t)
	bot, tab := g.agent("deploy-bot", "sam@example.com"), g.tab
	tab.Look(phone)
	const arguments = `{"to":"a@example.com","text":"x"}`
	g.call(bot, "send_mail", arguments)
	var made struct{ Requests []struct{ Request string } }
	g.CallJSON("request_access", someNote, &made, bot)
	g.kim("/admin/requests/" + made.Requests[0].Request)
	tab.Shot("phone-request")
	g.reachable("More, Decline, 1 h, Approve for all")
	for name, want := range map[string]string{
		"send_mail": "More, Block, Approve", "pay": "More, Block",
	} {
		tab.Goto("/admin/tools/office/" + name)
		tab.Shot("phone-review-" + name)
		g.reachable(want)
	}
	call := someID.FindString(g.call(bot, "pay", `{"invoice":"7","amount":12.50}`).Text)
	tab.Goto("/admin/requests/" + call)
	tab.Shot("phone-call")
	g.reachable("More, Decline, Confirm this call")

	tab.Click("#decide button.no") // without a reason, it asks for one
	tab.Until("the reason has the focus", `document.activeElement.name === "reason"`)
	tab.Everywhere("phone-decline")
	above := browsertest.Eval[bool](tab, `document.activeElement.getBoundingClientRect().bottom <=
		document.querySelector("#decide button.no").getBoundingClientRect().top`)
	if !above {
		t.Error("the reason is not above the buttons")
	}
	tab.Type("use staging")
	tab.Loads("Decline", func() { tab.Click("#decide button.no") })
	tab.SeeText(".message", "Declined.")

	tab.Click("header summary")
	tab.Everywhere("phone-menu")
	tab.Loads("the menu", func() { tab.ClickText("header nav a", "Requests") })
	if tab.Text("header summary"); len(tab.Texts("header nav a")) > 0 {
		t.Error("the menu is open on the next page")
	}

	for _, path := range []string{"/admin/tools", "/admin/audit?kind=deed"} {
		tab.Goto(path)
		before := len(tab.Texts(".filters label"))
		if before != 1 { // the search, or the filter with a value
			t.Errorf("%s shows %d filters", path, before)
		}
		tab.Click(".filters summary")
		tab.Everywhere("phone-filters")
		if len(tab.Texts(".filters label")) == before {
			t.Errorf("%s has no more filters", path)
		}
	}
	tab.Look(browsertest.Looks[2])
	tab.Goto("/admin/requests/" + made.Requests[0].Request)
	high := browsertest.Eval[float64](tab,
		`document.querySelector("#decide").getBoundingClientRect().height`)
	if high > 70 {
		t.Errorf("at 320 px the bar is %.0f px high, not one line", high)
	}
	tab.Shot("phone-request-320")
	tab.Look(phone)

	// Tap 1 is the link of the notification, and tap 2 the button.
	tapped := time.Now()
	tab.Goto("/admin/requests/" + made.Requests[0].Request)
	tab.Loads("Approve", func() { tab.ClickText("#decide button", "Approve for all") })
	if again := g.call(bot, "send_mail", arguments); again.IsError {
		t.Errorf("the retry after two taps: %s", again.Text)
	}
	t.Logf("2 taps, and %.1f s to the answer of the retry", time.Since(tapped).Seconds())
}

// Without scripts, a phone has the same buttons. To decline without a reason shows the field.
func TestPhoneWithoutScripts(t *testing.T) {
	g := openGate(t)
	bot, tab := g.agent("deploy-bot", "sam@example.com"), g.tab
	tab.Look(phone)
	call := someID.FindString(g.call(bot, "pay", `{"invoice":"7","amount":12.50}`).Text)
	g.kim("/admin/requests/" + call)
	tab.Scripts(false)
	tab.Reload()
	g.reachable("More, Decline, Confirm this call")
	tab.Forgive(`status 422 of `)
	tab.Loads("Decline without a reason", func() { tab.Click("#decide button.no") })
	tab.SeeText(".problem", "the reason is missing")
	tab.Fill(`input[name=reason]`, "use staging")
	tab.Loads("Decline", func() { tab.Click("#decide button.no") })
	tab.SeeText(".message", "Declined.")
}
