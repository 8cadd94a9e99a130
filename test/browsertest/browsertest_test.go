package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// serve starts a server with a content security policy as strict as the console's. It answers
// /script.js and /style.css with these texts, and every other path with the page.
func serve(t *testing.T, body, script, style string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		switch r.URL.Path {
		case "/script.js":
			h.Set("Content-Type", "text/javascript")
			fmt.Fprint(w, script)
		case "/style.css":
			h.Set("Content-Type", "text/css")
			fmt.Fprint(w, style)
		case "/missing":
			http.NotFound(w, r)
		default:
			h.Set("Content-Type", "text/html; charset=utf-8")
			h.Set(
				"Content-Security-Policy",
				"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: http://127.0.0.1:1; form-action 'self'; connect-src 'self'",
			)
			fmt.Fprintf(
				w,
				`<!doctype html><html lang="en"><head><title>Page</title><meta name="viewport" content="width=device-width, initial-scale=1">
				<link rel="icon" href="data:,"><link rel="stylesheet" href="/style.css"><script src="/script.js" defer></script></head>
				<body><main><h1>Page</h1><p id="query">%s</p>%s</main></body></html>`,
				strings.ReplaceAll(r.FormValue("q"), "<", "&lt;"),
				body,
			)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// openPage opens the start page of a server of these texts in a new browser.
func openPage(t *testing.T, body, script, style string) *Tab {
	t.Helper()
	tab := Open(t, serve(t, body, script, style).URL)
	tab.Goto("/")
	return tab
}

func TestFaults(t *testing.T) {
	for name, c := range map[string]struct{ body, script, want string }{
		"nothing":                 {body: `<p>fine</p>`, script: `document.body.append('fine')`},
		"another origin":          {body: `<img alt="" src="http://127.0.0.1:1/x.png">`, want: "sends a request to another origin: http://127.0.0.1:1/x.png"},
		"script in the page":      {body: `<script>document.title = 'x'</script>`, want: "Content Security Policy"},
		"handler in the page":     {body: `<img alt="" src="/missing" onerror="document.title = 'x'">`, want: "Content Security Policy"},
		"style in the page":       {body: `<p style="color: red">x</p>`, want: "Content Security Policy"},
		"frame":                   {body: `<iframe src="/other"></iframe>`, want: "Content Security Policy"},
		"missing":                 {body: `<img alt="" src="/missing">`, want: "status 404 of "},
		"exception":               {script: `null.x`, want: "a script failed: Uncaught TypeError"},
		"rejected promise":        {script: `Promise.reject(new Error('late'))`, want: "a script failed: Uncaught (in promise) Error: late"},
		"error on the console":    {script: `console.error('oh', 'no')`, want: "a script complains: oh no"},
		"dialog":                  {script: `alert('boo')`, want: `opens a dialog (alert): "boo"`},
		"question while it loads": {script: `if (confirm('sure?')) document.title = 'sure'`, want: `opens a dialog (confirm): "sure?"`},
	} {
		t.Run(name, func(t *testing.T) {
			tab := openPage(t, c.body, c.script, "")
			var faults []string
			if c.want == "" {
				faults = tab.Faults()
			} else {
				local.WaitFor(func() bool {
					faults = append(faults, tab.Faults()...)
					return strings.Contains(strings.Join(faults, "\n"), c.want)
				})
			}
			if got := strings.Join(faults, "\n"); !strings.Contains(got, c.want) ||
				c.want == "" && got != "" {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

func TestForgive(t *testing.T) {
	tab := Open(t, serve(t, `<img alt="" src="/missing">`, "", "").URL)
	tab.Forgive(`status 404 of .*/missing`)
	tab.Goto("/")
	if faults := tab.Faults(); len(faults) > 0 {
		t.Errorf("not forgiven: %q", faults)
	}
}

func TestPresses(t *testing.T) {
	tab := openPage(t,
		`<form action="/found"><label>Query <input name="q"></label><label>More <input name="more"></label><button>Send</button></form>`,
		`document.addEventListener('keydown', e => { if (e.target === document.body && e.key === '?') { document.querySelector('h1').innerText = 'Help'; document.querySelector('[name=more]').focus(); e.preventDefault() } })`,
		"")
	tab.Press("?")
	tab.SeeText("h1", "Help")
	tab.Press("Shift+Tab")
	tab.Type("a Bé")
	tab.Press("Backspace", "Tab", "x", "Shift+Tab")
	tab.Loads("Enter", func() { tab.Press("Enter") })
	if at := tab.Path(); at != "/found?q=a+B&more=x" {
		t.Errorf("the keys opened %s", at)
	}
	want := strings.Fields("Shift ? Shift Tab a Space Shift B é Backspace Tab x Shift Tab Enter")
	if got := tab.Presses(); !slices.Equal(got, want) {
		t.Errorf("pressed\n%q, want\n%q", got, want)
	}
	if got := tab.Presses(); len(got) > 0 {
		t.Errorf("a second Presses returns %q, want none", got)
	}
}

func TestScripts(t *testing.T) {
	tab := openPage(t,
		`<noscript>It works without.</noscript><form><input name="q" aria-label="q"><button>Send</button></form>`,
		`document.querySelector('button').innerText = 'Changed'`,
		"")
	tab.SeeText("button", "Changed")
	tab.Scripts(false)
	tab.Goto("/")
	if text := tab.Text("main"); !strings.Contains(text, "It works without.") ||
		!strings.Contains(text, "Send") {
		t.Errorf("without script the page shows %q", text)
	}
	tab.Click("input")
	tab.Type("typed")
	tab.Loads("the button", func() { tab.Click("button") })
	if got := tab.Text("#query"); got != "typed" {
		t.Errorf("the form sent %q", got)
	}
	tab.Scripts(true)
	tab.Goto("/")
	tab.SeeText("button", "Changed")
}

func TestLooks(t *testing.T) {
	tab := openPage(t,
		`<p id="wide">x</p>`,
		"",
		`#wide { width: 500px } @media (prefers-color-scheme: dark) { #wide { width: 2000px } main { overflow-x: clip } }`)
	for name, want := range map[string]bool{"1280-light": true, "1280-dark": false, "320-light": false, "320-dark": false, "zoomed": true} {
		for _, look := range Looks {
			if look.Name != name {
				continue
			}
			tab.Look(look)
			px, who := tab.width()
			if fits := px <= tab.room() && len(who) == 0; fits != want ||
				!fits && !strings.Contains(strings.Join(who, "\n"), `id="wide"`) {
				t.Errorf("%s: %d px (%q), want fits %v", name, px, who, want)
			}
			if ratio := Eval[int](tab, `devicePixelRatio`); ratio != look.Zoom {
				t.Errorf("%s: %d device pixels are one of the page's, want %d", name, ratio, look.Zoom)
			}
		}
	}
}

func TestViolations(t *testing.T) {
	tab := openPage(t,
		`<p class="dim">hardly to be read</p><input name="nameless">`,
		"",
		`body { background: #fff } @media (prefers-color-scheme: light) { .dim { color: #eee } }`)
	found := func(rules string) []string {
		var ids []string
		for _, v := range tab.violations(rules) {
			ids = append(ids, v.ID)
		}
		slices.Sort(ids)
		return ids
	}
	for rules, want := range map[string][]string{"": {"color-contrast", "label"}, colors: {"color-contrast"}, layout: {"label"}} {
		if got := found(rules); !slices.Equal(got, want) {
			t.Errorf("axe finds %q, want %q", got, want)
		}
	}
	tab.Look(Looks[1])
	if got, want := found(""), []string{"label"}; !slices.Equal(got, want) {
		t.Errorf("in the dark color scheme axe finds %q, want %q", got, want)
	}
}

// Two tabs of the same person share the browser's storage. Tabs of two tests do not.
func TestProfiles(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		http.SetCookie(w, &http.Cookie{Name: "seen", Value: "yes"})
		_, err := r.Cookie("seen")
		fmt.Fprintf(w, `<!doctype html><link rel="icon" href="data:,"><p>%v</p>`, err == nil)
	}))
	t.Cleanup(s.Close)
	first := Open(t, s.URL)
	first.Goto("/")
	second, stranger := first.Again(), Open(t, s.URL)
	first.Goto("/")
	second.Goto("/")
	stranger.Goto("/")
	for name, c := range map[string]struct {
		tab  *Tab
		want string
	}{"first": {first, "true"}, "second": {second, "true"}, "stranger": {stranger, "false"}} {
		if got := c.tab.Text("p"); got != c.want {
			t.Errorf("%s tab: %s, want %s", name, got, c.want)
		}
	}
}
