package browsertest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/portcullis-mcp/portcullis/test/local"
)

// eval returns the value of an expression in the page. If the value is a promise, eval waits for
// the promise. It works even if the page's own scripts are off.
func eval[V any](b *Tab, expression string) (V, error) {
	return chromedp.Run(b.ctx, chromedp.Evaluate[V](expression, chromedp.EvalAwaitPromise))
}

// Eval returns the value of a JavaScript expression in the page.
func Eval[V any](b *Tab, expression string) V {
	b.T.Helper()
	return run(b, expression, chromedp.Evaluate[V](expression, chromedp.EvalAwaitPromise))
}

// Read is [Eval] for an expression that only reads. If a page is being replaced, Read tries again.
func Read[V any](b *Tab, expression string) (v V) {
	b.T.Helper()
	var err error
	if !local.WaitFor(func() bool { v, err = eval[V](b, expression); return err == nil }) {
		b.fail("%s: %v", expression, err)
	}
	return v
}

// quoted returns a string as a JavaScript literal.
func quoted(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		return `""` // unreachable: every string can be encoded
	}
	return string(data)
}

// visible returns an expression for the visible elements of a selector that contain a text.
// Elements that are only for screen readers are not visible.
func visible(selector, text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(%s)].filter(e => e.checkVisibility({visibilityProperty: true}) && e.getBoundingClientRect().width > 1 && !getComputedStyle(e).clipPath.startsWith('inset(') && (e.innerText || e.value || '').includes(%s))`,
		quoted(selector), quoted(text))
}

// Goto opens a path of the gateway, or a whole address.
func (b *Tab) Goto(path string) {
	b.T.Helper()
	address := path
	if !strings.Contains(path, "://") {
		address = b.URL + path
	}
	b.do("open "+address, chromedp.Navigate(address))
}

// Reload loads the page again. If the page was the answer to a form, it sends the form again.
func (b *Tab) Reload() { b.T.Helper(); b.do("load the page again", chromedp.Reload()) }

// Loads calls act, which leads to another page or reloads the page, and waits for the page.
func (b *Tab) Loads(what string, act func()) {
	b.T.Helper()
	before := b.Loaded()
	act()
	if !local.WaitFor(func() bool { return b.Loaded() > before }) {
		b.fail("%s leads to no page", what)
	}
}

// Loaded returns how many pages have loaded in the tab.
func (b *Tab) Loaded() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loads
}

// Until waits until an expression is true in the page.
func (b *Tab) Until(what, expression string) {
	b.T.Helper()
	var last error
	if !local.WaitFor(func() bool {
		var ok bool // a read fails while the page is being replaced: try again
		ok, last = eval[bool](b, "Boolean("+expression+")")
		return ok && last == nil
	}) {
		b.fail("never true: %s (%v)", what, last)
	}
}

// See waits until an element of the selector is visible.
func (b *Tab) See(selector string) { b.T.Helper(); b.SeeText(selector, "") }

// SeeText waits until an element of the selector that contains a text is visible.
func (b *Tab) SeeText(selector, text string) {
	b.T.Helper()
	b.Until(fmt.Sprintf("%s with %q can be seen", selector, text), visible(selector, text)+".length > 0")
}

// Gone waits until no element of the selector is visible.
func (b *Tab) Gone(selector string) {
	b.T.Helper()
	b.Until(selector+" is gone", visible(selector, "")+".length == 0")
}

// Text waits for an element and returns its visible text.
func (b *Tab) Text(selector string) string {
	b.T.Helper()
	b.See(selector)
	return Eval[string](b, visible(selector, "")+"[0].innerText")
}

// Texts returns the text of each visible element of a selector.
func (b *Tab) Texts(selector string) []string {
	b.T.Helper()
	return Eval[[]string](b, visible(selector, "")+".map(e => e.innerText)")
}

// Has reports whether the page has an element, visible or not.
func (b *Tab) Has(selector string) bool {
	b.T.Helper()
	return Eval[bool](b, "document.querySelector("+quoted(selector)+") !== null")
}

// Value returns the content of a field.
func (b *Tab) Value(selector string) string {
	b.T.Helper()
	return Eval[string](b, "document.querySelector("+quoted(selector)+").value")
}

// Click clicks on the first visible element of a selector, as a person does. It does not click on a
// disabled element, and fails if another element covers it.
func (b *Tab) Click(selector string) { b.T.Helper(); b.ClickText(selector, "") }

// ClickText clicks on the first element of a selector that contains a text.
func (b *Tab) ClickText(selector, text string) {
	b.T.Helper()
	b.Until(fmt.Sprintf("%s with %q can be clicked", selector, text), visible(selector, text)+".some(e => !e.disabled)")
	b.painted()
	type place struct {
		X, Y  float64
		Cover string
	}
	p := Eval[place](b, `(e => {
		e.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
		const box = e.getClientRects()[0], x = box.x + box.width / 2, y = box.y + box.height / 2, top = document.elementFromPoint(x, y);
		const hit = top && (e.contains(top) || top.contains(e) || e.labels && [...e.labels].some(l => l.contains(top)));
		return {x, y, cover: hit ? '' : top ? top.outerHTML.slice(0, 200) : 'nothing'};
	})(`+visible(selector, text)+`.find(e => !e.disabled))`)
	if p.Cover != "" {
		b.fail("%s with %q is covered by %s", selector, text, p.Cover)
	}
	b.do("click on "+selector, chromedp.MouseClickXY(p.X, p.Y))
}

// painted waits at most five seconds until Chromium has painted the page once. Chromium drops mouse
// events before the first paint, which on a busy machine comes later than the load event.
func (b *Tab) painted() {
	b.T.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if Eval[bool](b, `performance.getEntriesByType('paint').length > 0`) {
			return
		}
	}
}

// Fill sets the text of a field, as a person who pastes text does.
func (b *Tab) Fill(selector, text string) {
	b.T.Helper()
	b.See(selector)
	Eval[bool](b, fmt.Sprintf(`(e => {e.focus(); e.value = %s; for (const n of ['input', 'change']) e.dispatchEvent(new Event(n, {bubbles: true})); return true})(%s[0])`,
		quoted(text), visible(selector, "")))
}
