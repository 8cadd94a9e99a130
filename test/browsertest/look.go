package browsertest

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/portcullis-mcp/portcullis/test/secrettest"
)

// A Look is a window size, zoom and color scheme of the browser.
type Look struct {
	Name   string
	Width  int // of the window, px
	Height int // 0: 900
	Dark   bool
	Zoom   int // 2: 200 %
	Phone  bool
}

// Looks are the looks in which [Tab.Everywhere] checks a page.
var Looks = []Look{
	{Name: "1280-light", Width: 1280, Zoom: 1},
	{Name: "1280-dark", Width: 1280, Zoom: 1, Dark: true},
	{Name: "320-light", Width: 320, Zoom: 1, Phone: true},
	{Name: "320-dark", Width: 320, Zoom: 1, Phone: true, Dark: true},
	{Name: "zoomed", Width: 1280, Zoom: 2},
}

const height = 900 // of the window, px

// Look applies a look. As in a real browser, a zoom of 200 % halves the width in CSS pixels.
func (b *Tab) Look(l Look) {
	b.T.Helper()
	b.look = l
	scheme := "light"
	if l.Dark {
		scheme = "dark"
	}
	b.do("look "+l.Name, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}}); err != nil {
			return err
		}
		_, err := cdp.Call(
			ctx,
			t,
			emulation.SetDeviceMetricsOverride,
			emulation.SetDeviceMetricsOverrideParams{
				Width: int64(
					l.Width / l.Zoom,
				), Height: int64(cmp.Or(l.Height, height) / l.Zoom), DeviceScaleFactor: float64(l.Zoom), Mobile: l.Phone,
			},
		)
		return err
	}))
}

// Scripts enables or disables the scripts of the pages that load later.
func (b *Tab) Scripts(on bool) {
	b.T.Helper()
	b.do("switch scripts", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on})
		return err
	}))
}

// Before runs a script in each page that loads later, before the page's own scripts.
func (b *Tab) Before(script string) {
	b.T.Helper()
	b.do("a script for later pages", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	}))
}

// Fits fails the test if the page, or an element that it cuts off, is wider than the window.
func (b *Tab) Fits() {
	b.T.Helper()
	if width, who := b.width(); width > b.room() || len(who) > 0 {
		b.T.Errorf("%s, %s: the page is %d px wide, the window %d; too wide is\n%s", b.Path(), b.look.Name, width, b.room(), strings.Join(who, "\n"))
	}
}

// room returns the width of the window in the page's pixels.
func (b *Tab) room() int { return b.look.Width / b.look.Zoom }

// width returns the width of the page, and some elements that are too wide. Elements that scroll in
// their own box count only if the box is too wide. Elements that are only for screen readers do not
// count.
func (b *Tab) width() (px int, who []string) {
	b.T.Helper()
	type extent struct {
		Width int
		Who   []string
	}
	e := Eval[extent](b, `(room => {
		const who = [...document.querySelectorAll('body *')].filter(e => {
			if (!e.getClientRects().length || e.getBoundingClientRect().right <= room + 0.5) return false;
			for (let p = e; p && p !== document.body; p = p.parentElement) {
				const style = getComputedStyle(p);
				if (p !== e && /auto|scroll/.test(style.overflowX) || style.clipPath.startsWith('inset(')) return false;
			}
			return true;
		}).map(e => e.outerHTML.slice(0, 120));
		return {width: Math.max(document.scrollingElement.scrollWidth, window.innerWidth), who: who.slice(0, 5)};
	})(`+strconv.Itoa(b.room())+`)`)
	return e.Width, e.Who
}

// Everywhere checks in each of [Looks] that the page fits and is accessible, and saves a picture.
// It checks colors only at 1280 px, light and dark, because a narrow window has the same colors.
func (b *Tab) Everywhere(name string) {
	b.T.Helper()
	before := b.look
	for _, l := range Looks {
		b.Look(l)
		b.Fits()
		switch {
		case l == Looks[0]:
			b.accessible("")
		case !l.Dark:
			b.accessible(layout)
		case !l.Phone:
			b.accessible(colors)
		}
		b.Shot(name + "-" + l.Name)
	}
	b.Look(before)
}

// Shot saves a picture of the whole page, or of the window if the look has a height. It checks that
// the page contains no secret of a sign-in.
func (b *Tab) Shot(name string) {
	b.T.Helper()
	secrettest.Absent(b.T, "the page "+name, Read[string](b, `document.documentElement.outerHTML`))
	b.keep(name, true)
}

// keep saves a picture. If must is true and there is no picture, the test fails.
func (b *Tab) keep(name string, must bool) {
	b.T.Helper()
	b.save(name+".png", func() []byte {
		shot := func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
			m, err := cdp.Call(ctx, t, page.GetLayoutMetrics, cdp.Empty{})
			if err != nil {
				return nil, err
			}
			beyond := true
			r, err := cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{
				CaptureBeyondViewport: &beyond,
				Clip: &page.Viewport{
					Width:  m.CSSContentSize.Width,
					Height: cmp.Or(float64(b.look.Height), min(m.CSSContentSize.Height, 6000)),
					Scale:  1,
				},
			})
			return r.Data, err
		}
		if must {
			return run(b, "picture "+name, shot)
		}
		data, _ := chromedp.Run(b.ctx, shot) // the test fails anyway
		return data
	})
}
