package console_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/fleettest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// openHostile starts a console with one server, whose harmless tools have become hostile.
func openHostile(t *testing.T) (d *fixture, tools []string) {
	t.Helper()
	t.Parallel()
	before, now := fleettest.Hostile()
	server, dir := upstreamtest.New(t, upstreamtest.Options{Tools: before, Forget: true}), t.TempDir()
	server.SetItems(fleettest.HostileItems())
	programtest.WriteConfig(t, dir, fmt.Sprintf(`{"mcpServers": {"hostile": {"url": %q, "resources": "manual"}}}`, server.URL))
	d = &fixture{Program: programtest.Start(t, dir, "--actor", "kim")}
	server.SetTools(now)
	d.Sync()
	d.tab = browsertest.Open(t, d.URL)
	d.signIn(d.tab)
	for _, raw := range now {
		var named struct{ Name string }
		require.OK(t, json.Unmarshal(raw, &named))
		tools = append(tools, named.Name)
	}
	return d, tools
}

// Expressions for elements that only a definition could add to a page, and for invisible
// characters.
const (
	foreign = `document.querySelectorAll('main :is(img, svg, iframe, script, style, object, embed, base, link, meta, template, [onload], [onerror], [onfocus], [style], [hx-on], a[href^="javascript:"], a[href^="data:"], a[href*="evil.example.com"])').length`
	unseen  = `(document.body.textContent.match(/[\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\u3164\ufeff]|[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]|\udb40[\udc00-\udfff]/g) || []).map(c => c.codePointAt(0).toString(16))`
)

// fitsEverywhere checks that the page fits in every look.
func (d *fixture) fitsEverywhere() {
	d.T.Helper()
	for _, look := range browsertest.Looks {
		d.tab.Look(look)
		d.tab.Fits()
	}
	d.tab.Look(browsertest.Looks[0])
}

// harmless checks that the page of a hostile item fits and shows the item as text. The heading and
// the title must contain the name.
func (d *fixture) harmless(t *testing.T, path, name string) {
	t.Helper()
	d.tab.Goto(path)
	d.tab.SeeText("main h1", name)
	d.fitsEverywhere()
	if n := browsertest.Eval[int](d.tab, foreign); n > 0 {
		t.Errorf("%d elements of the page come from the definition", n)
	}
	if found := browsertest.Eval[[]string](d.tab, unseen); len(found) > 0 {
		t.Errorf("the page has characters that nobody sees: %q", found)
	}
	if title := browsertest.Eval[string](d.tab, `document.title`); !strings.Contains(title, name) || !strings.Contains(title, "Portcullis") {
		t.Errorf("the title is %q", title)
	}
	d.tab.SeeText("main button", "Approve")
	if a := d.get(path); len(a.Body) > maxHostile {
		t.Errorf("the page has %d bytes, want at most %d", len(a.Body), maxHostile)
	}
}

// Hostile prompts and resources are text on every page, like hostile tools.
func TestHostileItems(t *testing.T) {
	d, _ := openHostile(t)
	type listed struct{ ID, Name, Kind, Address string }
	items := slices.Concat(agenttest.Pages[listed](&d.Client, "tools", "tools", "kind=prompt"), agenttest.Pages[listed](&d.Client, "tools", "tools", "kind=resource"))
	if len(items) != 12 {
		t.Errorf("the gateway accepted %d prompts and resources", len(items))
	}
	for n, x := range items {
		d.tab.Run(x.Address, func(t *testing.T) {
			begin := []rune(x.Name)
			d.harmless(t, x.Address, string(begin[:min(len(begin), 60)]))
			d.tab.Shot(fmt.Sprintf("hostile-%s-%d", x.Kind, n))
		})
	}
}

// A hostile definition is text on every page that shows it. No script runs, no request is sent, no
// text is hidden, nothing is wider than the page, and the buttons are visible.
func TestHostileDefinitions(t *testing.T) {
	d, tools := openHostile(t)
	for _, name := range tools {
		if name == fleettest.TooLarge {
			continue
		}
		d.tab.Run(name, func(t *testing.T) {
			d.harmless(t, "/admin/tools/hostile/"+name, name)
			d.tab.Shot("hostile-" + name[:min(len(name), 30)])
		})
	}
	for _, path := range []string{"/admin", "/admin/tools", "/admin/tools?q=alert", "/admin/tools?kind=resource", "/admin/servers/hostile"} {
		d.tab.Run(strings.ReplaceAll(path, "/", "_"), func(t *testing.T) {
			d.tab.Goto(path)
			d.tab.See("h1")
			d.fitsEverywhere()
			d.tab.Shot("hostile-list" + strings.NewReplacer("/", "-", "?", "-").Replace(path))
			if n := browsertest.Eval[int](d.tab, foreign); n > 0 {
				t.Errorf("%d elements of the page come from a definition", n)
			}
			if found := browsertest.Eval[[]string](d.tab, unseen); len(found) > 0 {
				t.Errorf("the page has characters that nobody sees: %q", found)
			}
		})
	}
	t.Run("too large", func(t *testing.T) {
		d.tab.Goto("/admin/servers/hostile")
		d.tab.SeeText("main", fleettest.TooLarge)
		d.tab.SeeText("main", fmt.Sprint(tool.MaxDefinition))
	})
}
