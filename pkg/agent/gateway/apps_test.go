package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
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
	gw.Serve("a",
		def("show", "Show the alpha.", paged("ui://both/page")), def("refresh", "Refresh.", visible(`["app"]`)),
		def("only_a", "For the page.", visible(`["app"]`)), def("plan", "Plan.", visible(`["model"]`)))
	gw.Serve("b",
		def("show", "Show the beta.", paged("ui://both/page")), def("own", "Show more.", paged("ui://b/own")),
		def("refresh", "Refresh.", visible(`["app","model"]`)), def("only_b", "For the page.", visible(`["app"]`)))
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
		if callable, locked := f.names(); slices.Contains(callable, "a:only_a") || slices.Contains(callable, "a:refresh") || len(locked) > 0 {
			t.Errorf("%s: found %v, %v", query, callable, locked)
		}
	}
	const text = `Tool "a:only_a" is not for models: a page of its server (MCP App) calls it when a person uses the page.`
	for _, with := range []string{"call_tool_read", "call_tool_destructive"} {
		if r := gw.Call(with, `{"name":"a:only_a"}`); !r.IsError || r.Text != text+" Nothing was called." {
			t.Errorf("%s: %s", with, r.Text)
		}
	}
	if r := gw.Call("describe_tools", `{"names":["a:only_a"]}`); strings.Contains(r.Text, "definition") || !strings.Contains(r.Text, "is not for models") {
		t.Errorf("%s", r.Text)
	}
	gw.sentNothing()
	gw.Decide("a:only_a", "disable")
	gw.Decide("a:show", "disable")
	gw.Clock.Wait(time.Minute)
	if r := gw.Call("upstream_servers", `{"name":"a"}`); !strings.Contains(r.Text, `"tools":{"callable":1,"disabled_by_user":1}`) {
		t.Errorf("counts: %s", r.Text)
	}
	gw.reconfigure(nil, directMode)
	if names := gw.menuOf(); names != "a__plan a__refresh b__only_b b__own b__refresh b__show plain__refresh plain__tidy" {
		t.Errorf("a host that shows pages gets %s", names)
	}
	gw.Apps = false
	if names := gw.menuOf(); names != "a__plan b__own b__refresh b__show plain__refresh plain__tidy" {
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
		if r := gw.Call("a__only_a", `{}`); !r.IsError || !strings.HasPrefix(r.Text, `Tool "a:only_a" is locked: disabled_by_user.`) {
			t.Errorf("lock: %s", r.Text)
		}
		gw.Agent.Servers = []string{"b"}
		if got := gw.calls("a__only_a"); got != `Unknown tool: "a__only_a"` {
			t.Errorf("scope: %s", got)
		}
		gw.sentNothing()
	}
}

const (
	foreignCall   = "is not of the server whose page this client opened last"
	ambiguousCall = `More than one server has a tool "refresh" for its pages: "a", "b".`
)

// A page calls tools by the names of its server. The server is the one whose page the client opened
// last.
func TestPageCalls(t *testing.T) {
	for _, mode := range []string{`"gateway":{}`, directMode} {
		gw := apps(t, mode)
		byModel := "b refresh" // the call may be a model's
		if mode != directMode {
			byModel = `Unknown tool: "b__refresh"`
		}
		for _, step := range []struct{ do, call, want string }{
			{"", "refresh", ambiguousCall},
			{"", "only_a", "a only_a"}, // it can only be of one page
			{"", "nothing", `Unknown tool: "nothing"`},
			{"", "tidy", `Unknown tool: "tidy"`}, // its server has no page
			{"/x/a", "refresh", "a refresh"},
			{"", "only_b", foreignCall},
			{"", "b__only_b", foreignCall},
			{"", "plan", `Unknown tool: "plan"`}, // it is only for models
			{"", "b__refresh", byModel},
			{"/x/b", "refresh", "b refresh"},
			{"", "only_a", foreignCall},
			{"", "a__only_a", foreignCall},
			{"call a__show", "refresh", "a refresh"},
			{"restart", "refresh", "a refresh"},
			{"another session", "refresh", ambiguousCall},
			{"/x/b", "refresh", "b refresh"},
			{"first session", "refresh", "a refresh"},
			{"later", "refresh", ambiguousCall},
		} {
			kind, name, _ := strings.Cut(step.do, " ")
			switch kind {
			case "":
			case "call":
				gw.calls(name)
			case "restart":
				gw.Restart()
			case "another":
				gw.Session = "s2"
			case "first":
				gw.Session = ""
			case "later":
				gw.Clock.Wait(25 * time.Hour)
			default:
				gw.opens(step.do, "ui://both/page")
			}
			if got := gw.calls(step.call); !strings.Contains(got, step.want) {
				t.Errorf("%s: %q calls %s: %s; want %s", mode, step.do, step.call, got, step.want)
			}
		}
	}
}

// A page's call passes lock and tier. A client that does not declare that it shows pages can call
// by such a name after it has read a page.
func TestPageCallsUnderLock(t *testing.T) {
	gw := apps(t, directMode)
	gw.Apps = false
	if got := gw.calls("only_a"); got != `Unknown tool: "only_a"` {
		t.Errorf("a client that has read no page: %s", got)
	}
	gw.opens("/x/a", "ui://both/page")
	if got := gw.calls("only_a"); got != "a only_a" {
		t.Errorf("a client that has read a page: %s", got)
	}
	gw.Decide("a:only_a", "disable")
	if r := gw.Call("only_a", `{}`); !r.IsError || !strings.HasPrefix(r.Text, `Tool "a:only_a" is locked: disabled_by_user.`) {
		t.Errorf("locked: %s", r.Text)
	}
	gw.Agent.Tiers = nil
	if got := gw.calls("refresh"); !strings.Contains(got, "may not call read tools") {
		t.Errorf("tier: %s", got)
	}
	gw.Agent.Servers, gw.Agent.Tiers = []string{"b"}, []tool.Tier{tool.Read}
	if got := gw.calls("refresh"); !strings.Contains(got, foreignCall) || strings.Contains(got, `"a"`) {
		t.Errorf("the page's server is out of scope: %s", got)
	}
	gw.sentNothing()
}

// Only a host's read of a page counts: not a model's, and not the reads of a subscription.
func TestReadsThatOpenNoPage(t *testing.T) {
	gw := apps(t)
	gw.opens("/x/a", "ui://both/page")
	if r := gw.Call("read_resource", `{"server":"b","uri":"ui://b/own"}`); r.IsError {
		t.Fatal(r.Text)
	}
	if _, err := gw.Open().GetItem(t.Context(), mcp.Request{Method: mcp.MethodReadResource, Params: true, URI: "ui://b/own"}, mcp.Client{}); err != nil {
		t.Fatal(err)
	}
	gw.Sent()
	if got := gw.calls("refresh"); got != "a refresh" {
		t.Error(got)
	}
}

// If the gateway cannot store or read whose page is open, no page is passed on and no page's call
// is sent. Calls of listed tools continue.
func TestPageStoreFails(t *testing.T) {
	gw := apps(t)
	gw.opens("/x/a", "ui://both/page")
	gw.Approvals.OnDocs = func(_ context.Context, keys []document.Key) error {
		if strings.HasPrefix(keys[0].Part, "PAGE#") {
			return errors.New("no connection")
		}
		return nil
	}
	e := gw.refused("resources/read", `{"uri":"ui://b/own"}`)
	if e.Code != mcp.CodeUpstream || !strings.HasPrefix(e.Message, "The page was read, but the gateway could not store whose page this client opens.") || e.Err == nil {
		t.Errorf("%+v", e)
	}
	gw.Sent()
	for _, name := range []string{"refresh", "a__only_a"} {
		if got := gw.calls(name); !strings.HasPrefix(got, "The gateway could not read whose page this client opened last. Nothing was sent to a server.") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := gw.calls("b__show"); got != "b show" || !strings.Contains(gw.Log.String(), "page of a client not stored") {
		t.Errorf("a listed tool: %s; log: %s", got, gw.Log.String())
	}
}

// The server of a page that two servers have is the server of the tool.
func TestPageOfTwoServers(t *testing.T) {
	gw := apps(t)
	read := func() string {
		_, err := gw.ask("resources/read", `{"uri":"ui://both/page"}`)
		if e, ok := errors.AsType[*mcp.Error](err); ok {
			return e.Message
		}
		require.OK(t, err)
		return gw.sentTo()
	}
	const twice = `More than one server has the page "ui://both/page": "a", "b". Nothing was sent to a server. Call the tool of the page first, or read the page at /mcp/x/{server}.`
	for _, step := range []struct{ do, want string }{
		{"", twice},
		{"b__show", "b ui://both/page"},
		{"a__show", "a ui://both/page"},
		{"", "a ui://both/page"},
		{"b__own", "b ui://both/page"},
		{"disable b:show", "a ui://both/page"}, // only the tool of a is callable
		{"disable a:show", `Tool "a:show" is locked: disabled_by_user.`},
	} {
		if id, ok := strings.CutPrefix(step.do, "disable "); ok {
			gw.Decide(id, "disable")
			gw.Clock.Wait(time.Minute)
		} else if step.do != "" {
			gw.calls(step.do)
		}
		if got := read(); !strings.HasPrefix(got, step.want) {
			t.Errorf("after %q: %s; want %s", step.do, got, step.want)
		}
	}
}

// A server without a tool for a page cannot take it over with a list or a template, and an answer
// cannot have the page of another server.
func TestPageTakenOver(t *testing.T) {
	gw := apps(t)
	also(gw.ByName["plain"], resource("ui://b/own", "Fake."), resource("ui://{+x}", "All."))
	gw.Sync()
	gw.opens("", "ui://b/own")
	if raw, err := gw.ask("resources/read", `{"uri":"ui://b/own"}`); err != nil || gw.sentTo() != "b ui://b/own" {
		t.Errorf("%s, %v", raw, err)
	}
	gw.ByName["plain"].Answer = func(gatewaytest.Sent) (json.RawMessage, error) {
		return json.RawMessage(`{"contents":[{"uri":"ui://both/page","text":"fake"}]}`), nil
	}
	if e := gw.refused("resources/read", `{"uri":"ui://x"}`); !strings.Contains(e.Message, `holds "ui://both/page", which is another server's: "a"`) {
		t.Errorf("%+v", e)
	}
}

// A page can be read if no server lists a resource, and the gateway declares that it has resources.
func TestPagesWithoutResources(t *testing.T) {
	gw := apps(t)
	if !gw.Open().Offers().Resources || gw.lists() != "" {
		t.Errorf("offers %+v, lists %s", gw.Open().Offers(), gw.lists())
	}
	gw.opens("", "ui://b/own")
	gw.Path = "/x/plain"
	if gw.Open().Offers().Resources {
		t.Error("a selection without pages offers resources")
	}
	if e := gw.refused("resources/read", `{"uri":"ui://b/own"}`); e.Code != mcp.CodeMethodNotFound {
		t.Errorf("%+v", e)
	}
	gw.sentNothing()
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
		kanji = append(kanji, def(fmt.Sprint("t", i), strings.Repeat("漢字仮名交じり文", 12), paged("ui://x")))
	}
	gw.Serve("s", kanji...)
	if got := gw.listedPaged(); len(got) == 0 {
		t.Error("no tool fits")
	}
	for server, list := range local.Many(t, 527) {
		gw := newFixture(t)
		var all []string
		for _, raw := range list {
			all = append(all, string(rawjson.Set(raw, "_meta", []byte(`{"ui":{"resourceUri":"ui://x"}}`))))
		}
		gw.Serve(server, all...)
		gw.listedPaged()
	}
}
