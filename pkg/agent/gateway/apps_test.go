package gateway_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/tokens"
)

// paged returns the members of a definition with a page.
func paged(uri string) string { return readOnly + `,"_meta":{"ui":{"resourceUri":"` + uri + `"}}` }

// visible returns the members of a read-only definition with a visibility, as JSON.
func visible(to string) string { return readOnly + `,"_meta":{"ui":{"visibility":` + to + `}}` }

// apps returns a gateway with two servers that have the same page and a tool with the same name,
// and a third server without pages. The client shows pages.
func apps(t testing.TB, rest ...string) *fixture {
	gw := newFixture(t)
	gw.Serve(
		"a",
		def(
			"show",
			"Show the alpha.",
			paged("ui://both/page"),
		),
		def("refresh", "Refresh.", visible(`["app"]`)),
		def(
			"only_a",
			"For the page.",
			visible(`["app"]`),
		),
		def("plan", "Plan.", visible(`["model"]`)),
	)
	gw.Serve(
		"b",
		def(
			"show",
			"Show the beta.",
			paged("ui://both/page"),
		),
		def("own", "Show more.", paged("ui://b/own")),
		def(
			"refresh",
			"Refresh.",
			visible(`["app","model"]`),
		),
		def("only_b", "For the page.", visible(`["app"]`)),
	)
	gw.Serve("plain", def("refresh", "Refresh.", readOnly), def("tidy", "Tidy.", readOnly))
	gw.load(nil, rest...)
	gw.Apps = true
	return gw
}

// opens reads a page.
func (gw *fixture) opens(path, uri string) {
	gw.T.Helper()
	gw.Path = path
	if raw, err := gw.ask("resources/read", fmt.Sprintf(`{"uri":%q}`, uri)); err != nil {
		gw.T.Fatalf("page %s: %s, %v", uri, raw, err)
	}
	gw.Path = ""
	gw.Sent()
}

// calls calls a tool by name, and returns where the call went, or the error.
func (gw *fixture) calls(name string) string {
	gw.T.Helper()
	_, err := gw.Try(fmt.Sprintf(`{"name":%q}`, name))
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		gw.sentNothing()
		return e.Message
	}
	require.OK(gw.T, err)
	return gw.sentTo()
}

// A model does not find and cannot call a tool that only pages call.
func TestAppOnlyToolForModels(t *testing.T) {
	gw := apps(t)
	for _, query := range []string{"only a for the page", "refresh"} {
		f := gw.search(fmt.Sprintf(`{"query":%q,"include_disabled":true}`, query))
		if callable, locked := f.names(); slices.Contains(callable, "a:only_a") ||
			slices.Contains(callable, "a:refresh") ||
			len(locked) > 0 {
			t.Errorf("%s: found %v, %v", query, callable, locked)
		}
	}
	const text = `Tool "a:only_a" is not for models: ` +
		`a page of its server (MCP App) calls it when a person uses the page.`
	for _, with := range []string{"call_tool_read", "call_tool_destructive"} {
		if r := gw.Call(with, `{"name":"a:only_a"}`); !r.IsError ||
			r.Text != text+" Nothing was called." {
			t.Errorf("%s: %s", with, r.Text)
		}
	}
	if r := gw.Call("describe_tools", `{"names":["a:only_a"]}`); strings.Contains(
		r.Text,
		"definition",
	) ||
		!strings.Contains(r.Text, "is not for models") {
		t.Errorf("%s", r.Text)
	}
	gw.sentNothing()
	gw.Decide("a:only_a", "disable")
	gw.Decide("a:show", "disable")
	gw.Clock.Wait(time.Minute)
	if r := gw.Call("upstream_servers", `{"name":"a"}`); !strings.Contains(
		r.Text,
		`"tools":{"callable":1,"disabled_by_user":1}`,
	) {
		t.Errorf("counts: %s", r.Text)
	}
	gw.reconfigure(nil, directMode)
	const others = "b__own b__refresh b__show plain__refresh plain__tidy"
	if names := gw.menuOf(); names != "a__plan a__refresh b__only_b "+others {
		t.Errorf("a host that shows pages gets %s", names)
	}
	gw.Apps = false
	if names := gw.menuOf(); names != "a__plan "+others {
		t.Errorf("another client gets %s", names)
	}
}

// A direct call of a tool that only pages call passes scope, lock and tier, in both modes.
func TestAppOnlyToolByName(t *testing.T) {
	for _, mode := range []string{`"gateway":{}`, directMode} {
		gw := apps(t, mode)
		if got := gw.calls("a__only_a"); got != "a only_a" {
			t.Errorf("callable: %s", got)
		}
		gw.Agent.Tiers = []tool.Tier{tool.Write}
		if got := gw.calls("a__only_a"); !strings.Contains(got, "may not call read tools") {
			t.Errorf("tier: %s", got)
		}
		gw.Agent.Tiers = []tool.Tier{tool.Read}
		gw.Decide("a:only_a", "disable")
		if r := gw.Call("a__only_a", `{}`); !r.IsError ||
			!strings.HasPrefix(r.Text, `Tool "a:only_a" is locked: disabled_by_user.`) {
			t.Errorf("lock: %s", r.Text)
		}
		gw.Agent.Servers = []string{"b"}
		if got := gw.calls("a__only_a"); got != `Unknown tool: "a__only_a"` {
			t.Errorf("scope: %s", got)
		}
		gw.sentNothing()
	}
}

// In search mode, a host that shows pages gets the callable tools with a page, too.
func TestSearchListsPagedTools(t *testing.T) {
	gw := apps(t)
	if got := strings.Join(strings.Fields(gw.menuOf())[6:], " "); got != "a__show b__own b__show" {
		t.Errorf("listed %s", got)
	}
	if got := gw.calls("b__show"); got != "b show" {
		t.Errorf("b__show: %s", got)
	}
	before := gw.Open().Lists(gateway.Lists{})
	gw.Decide("b:show", "disable")
	gw.Clock.Wait(time.Minute)
	if got := strings.Join(strings.Fields(gw.menuOf())[6:], " "); got != "a__show b__own" {
		t.Errorf("listed with a locked tool: %s", got)
	}
	if after := gw.Open().Lists(before); after.Tools == before.Tools {
		t.Error("the list has the same version as before the lock")
	}
	gw.Apps = false
	if got := strings.Fields(gw.menuOf()); len(got) != 6 {
		t.Errorf("another client gets %v", got)
	}
	if got := gw.calls("b__own"); got != `Unknown tool: "b__own"` {
		t.Errorf("another client calls b__own: %s", got)
	}
	gw.Apps = true
	gw.reconfigure(nil, `"gateway":{"apps":"off"}`)
	if got := strings.Fields(gw.menuOf()); len(got) != 6 {
		t.Errorf("off: %v", got)
	}
	for _, name := range []string{"b__own", "only_b", "a__only_a"} {
		if got := gw.calls(name); got != fmt.Sprintf("Unknown tool: %q", name) {
			t.Errorf("off: %s: %s", name, got)
		}
	}
}

// listedPaged returns the names of the tools with a page that search mode lists, and checks their
// size.
func (gw *fixture) listedPaged() []string {
	gw.T.Helper()
	gw.Apps = true
	gw.load(nil)
	raw, err := gw.Open().ListTools(gw.T.Context(), "")
	require.OK(gw.T, err)
	n, names := 0, strings.Fields(gw.menuOf())[6:]
	for _, d := range require.JSON[struct{ Tools []json.RawMessage }](gw.T, raw).Tools[6:] {
		n += tokens.Count(gw.T, string(d))
	}
	gw.T.Logf("%d tools with %d tokens", len(names), n)
	if n > 1500 {
		gw.T.Errorf("%d tools have %d tokens, want at most 1500", len(names), n)
	}
	return names
}

// Search mode lists the first ten tools with a page that fit.
func TestPagedToolsAreFew(t *testing.T) {
	gw := newFixture(t)
	var definitions, want []string
	for i := range 13 {
		name, text := fmt.Sprintf("t%02d", i), "Show."
		if i == 3 {
			text = strings.Repeat("Long texts. ", 500)
		} else if len(want) < 10 {
			want = append(want, "s__"+name)
		}
		definitions = append(definitions, def(name, text, paged("ui://x")))
	}
	gw.Serve("s", definitions...)
	same(t, "listed", want, gw.listedPaged())
}

// Real tools with a page stay within the limit of tokens, and so do texts of other scripts.
func TestPagedToolsHaveFewTokens(t *testing.T) {
	gw := newFixture(t)
	var kanji []string
	for i := range 20 {
		kanji = append(
			kanji,
			def(fmt.Sprint("t", i), strings.Repeat("漢字仮名", 24), paged("ui://x")),
		)
	}
	gw.Serve("s", kanji...)
	if got := gw.listedPaged(); len(got) == 0 {
		t.Error("no tool fits")
	}
	for server, list := range local.Many(t, 527) {
		gw := newFixture(t)
		var all []string
		for _, raw := range list {
			all = append(
				all,
				string(rawjson.Set(raw, "_meta", []byte(`{"ui":{"resourceUri":"ui://x"}}`))),
			)
		}
		gw.Serve(server, all...)
		gw.listedPaged()
	}
}
