// Package browsertest opens pages in a real Chromium, for tests of pages, clicks and keys.
//
// One browser serves a test binary, and each test has its own profile in it:
//
//	func TestMain(m *testing.M) { os.Exit(browsertest.Main(m)) }
//
//	tab := browsertest.Open(t, gateway.URL)
//	tab.Goto("/admin")
//	tab.Loads("the sign-in", func() { tab.Click("main button") })
//	tab.Press("j", "Enter")
//	tab.See("h1")
//	tab.Everywhere("review") // the page fits and is accessible; saves pictures
//
// Some faults of a page fail every test: a request to another origin, an error status, a dialog,
// and a script that fails or that the content security policy blocks. A test that causes such a
// fault on purpose calls [Tab.Forgive].
//
// Nothing here waits for a fixed time: each action waits for its condition, at most
// [local.Patience]. Pictures go into the folder that PORTCULLIS_SHOTS names; without this variable
// no picture is saved.
package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A Tab is a browser tab with its own profile, so it has no cookies of other tests. Its methods end
// the test if they fail.
type Tab struct {
	T   testing.TB
	URL string // base of the paths that Goto opens

	ctx  context.Context
	look Look

	mu       sync.Mutex
	at       string // the document's address
	origins  []string
	forgiven []*regexp.Regexp
	faults   []string
	loads    int // documents that have loaded
	presses  []string
}

// process is the browser of this test binary.
var process struct {
	sync.Mutex
	main  bool // Main runs and will end the browser
	ctx   context.Context
	end   []context.CancelFunc
	hosts []string // rules of [Serve]
}

// Main runs the tests of a package that opens tabs, ends the browser, and returns the exit code.
func Main(m *testing.M) int {
	process.main = true
	defer func() {
		for _, end := range slices.Backward(process.end) {
			end()
		}
	}()
	return m.Run()
}

// browser returns the browser. The first call starts it.
func browser(t testing.TB) context.Context {
	t.Helper()
	process.Lock()
	defer process.Unlock()
	if process.ctx != nil {
		return process.ctx
	}
	if !process.main {
		t.Fatal("TestMain of this package has to call browsertest.Main, which ends the browser")
	}
	path := os.Getenv("PORTCULLIS_CHROMIUM")
	if path == "" {
		path, _ = exec.LookPath("chromium")
	}
	if path == "" {
		local.Missing(t, "no browser: neither PORTCULLIS_CHROMIUM nor chromium on the PATH (`make browser` installs it)")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WSURLReadTimeout(local.Patience),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		// Resolve only the names of this machine and the hosts of Serve.
		chromedp.Flag("host-resolver-rules", strings.Join(append(process.hosts,
			"MAP * ~NOTFOUND", "EXCLUDE 127.0.0.1", "EXCLUDE localhost"), ", ")))
	if process.hosts != nil { // their certificate is for another name
		options = append(options, chromedp.Flag("ignore-certificate-errors", true))
	}
	ctx, cancelAll := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(ctx)
	process.end = append(process.end, cancelAll, cancel)
	require.OK(t, chromedp.Do(ctx))
	process.ctx = ctx
	return ctx
}

// Serve makes the browser find a handler at https://host until the test ends. It fails if a tab of
// this test binary was opened before.
func Serve(t testing.TB, host string, h http.Handler) {
	t.Helper()
	process.Lock()
	defer process.Unlock()
	if process.ctx != nil {
		t.Fatal("the browser runs already")
	}
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	process.hosts = append(process.hosts, "MAP "+host+" "+s.Listener.Addr().String())
}

// Open opens a tab for a gateway, 1280 px wide, in the light color scheme. Pages may send requests
// only to the gateway and to the other origins.
func Open(t testing.TB, gateway string, others ...string) *Tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser(t), chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &Tab{T: t, URL: strings.TrimSuffix(gateway, "/"), ctx: ctx, origins: append(others, gateway)}
	b.begin(Looks[0])
	return b
}

// begin prepares a tab. Each tab has the focus, as if it were the only window.
func (b *Tab) begin(l Look) {
	b.T.Helper()
	b.do("open a tab", chromedp.Steps())
	b.do("give it the focus", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
		return err
	}))
	b.watch()
	b.Look(l)
	b.T.Cleanup(b.report)
}

// Again opens another tab with the same profile, so the same person is signed in.
func (b *Tab) Again() *Tab {
	b.T.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewWindow(true))
	b.T.Cleanup(cancel)
	other := &Tab{T: b.T, URL: b.URL, ctx: ctx, origins: b.origins, forgiven: b.forgiven}
	other.begin(b.look)
	return other
}

// useFor makes the faults of the tab fail t, until the caller calls the returned function.
func (b *Tab) useFor(t testing.TB) func() {
	before := b.T
	b.T = t
	return func() {
		b.report()
		b.T = before
	}
}

// Run runs a subtest with the tab.
func (b *Tab) Run(name string, test func(t *testing.T)) bool {
	outer, ok := b.T.(*testing.T)
	if !ok {
		b.T.Fatal("only a test has subtests")
	}
	return outer.Run(name, func(t *testing.T) {
		defer b.useFor(t)()
		test(t)
	})
}

// report fails the test for each fault since the last report.
func (b *Tab) report() {
	b.T.Helper()
	_, _ = eval[int](b, "1") // events before this answer are recorded now
	for _, f := range b.Faults() {
		b.T.Error(f)
	}
}

// Forgive ignores later faults that match a pattern, such as "status 409".
func (b *Tab) Forgive(pattern string) {
	b.T.Helper()
	b.report()
	b.forgiven = append(b.forgiven, regexp.MustCompile(pattern))
}

// Faults returns the faults that match no pattern of [Tab.Forgive], and forgets all faults.
func (b *Tab) Faults() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := slices.DeleteFunc(b.faults, func(f string) bool {
		return slices.ContainsFunc(b.forgiven, func(p *regexp.Regexp) bool { return p.MatchString(f) })
	})
	b.faults = nil
	return out
}

// do runs an action. An error ends the test.
func (b *Tab) do(what string, a chromedp.Action[chromedp.Void]) {
	b.T.Helper()
	run(b, what, a)
}

// run runs an action and returns its value. An error ends the test.
func run[V any](b *Tab, what string, a chromedp.Action[V]) V {
	b.T.Helper()
	ctx, cancel := b.ctx, func() {}
	if chromedp.FromContext(b.ctx).Target != nil { // the tab keeps its first context
		ctx, cancel = context.WithTimeout(b.ctx, local.Patience)
	}
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		b.fail("%s: %v", what, err)
	}
	return v
}

// fail ends the test, with the text of the page in the message.
func (b *Tab) fail(format string, args ...any) {
	b.T.Helper()
	b.keep("failed-"+strings.NewReplacer("/", "-", " ", "-").Replace(b.T.Name()), false)
	shown, _ := eval[string](b, `document.body ? document.body.innerText.trim() : ''`) // there may be no page at all
	if len(shown) > 1500 {
		shown = shown[:1500] + "…"
	}
	b.report()
	b.T.Fatalf("%s\nat %s, which shows\n%s", fmt.Sprintf(format, args...), b.Location(), shown)
}

// Location returns the address of the page.
func (b *Tab) Location() string {
	if at, err := eval[string](b, `location.href`); err == nil {
		return at
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at
}

// Path returns the part of the page's address after the gateway's address.
func (b *Tab) Path() string { return strings.TrimPrefix(b.Location(), b.URL) }

// Cookie returns the value of a cookie, or "" if there is none. It also reads HttpOnly cookies.
func (b *Tab) Cookie(name string) string {
	b.T.Helper()
	return run(b, "cookies", func(ctx context.Context, t *chromedp.Target) (string, error) {
		r, err := cdp.Call(ctx, t, network.GetCookies, network.GetCookiesParams{URLs: []string{b.URL + "/admin"}})
		for _, c := range r.Cookies {
			if c.Name == name {
				return c.Value, err
			}
		}
		return "", err
	})
}

// mayRequest reports whether a page may send a request to an address.
func (b *Tab) mayRequest(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	if u.Scheme == "data" || u.Scheme == "about" {
		return true
	}
	return slices.ContainsFunc(b.origins, func(origin string) bool { return origin == u.Scheme+"://"+u.Host })
}

// save writes a file into the folder of pictures, if PORTCULLIS_SHOTS names one.
func (b *Tab) save(name string, data func() []byte) {
	b.T.Helper()
	folder := os.Getenv("PORTCULLIS_SHOTS")
	if folder == "" {
		return
	}
	require.OK(b.T, os.MkdirAll(folder, 0o700))
	require.OK(b.T, os.WriteFile(filepath.Join(folder, name), data(), 0o600))
}
