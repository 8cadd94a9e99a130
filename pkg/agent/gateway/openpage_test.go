package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

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
	if r := gw.Call("only_a", `{}`); !r.IsError ||
		!strings.HasPrefix(r.Text, `Tool "a:only_a" is locked: disabled_by_user.`) {
		t.Errorf("locked: %s", r.Text)
	}
	gw.Agent.Tiers = nil
	if got := gw.calls("refresh"); !strings.Contains(got, "may not call read tools") {
		t.Errorf("tier: %s", got)
	}
	gw.Agent.Servers, gw.Agent.Tiers = []string{"b"}, []tool.Tier{tool.Read}
	if got := gw.calls("refresh"); !strings.Contains(got, foreignCall) ||
		strings.Contains(got, `"a"`) {
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
	read := mcp.Request{Method: mcp.MethodReadResource, Params: true, URI: "ui://b/own"}
	if _, err := gw.Open().GetItem(t.Context(), read, mcp.Client{}); err != nil {
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
	if e.Code != mcp.CodeUpstream ||
		!strings.HasPrefix(
			e.Message,
			"The page was read, but the gateway could not store whose page this client opens.",
		) ||
		e.Err == nil {
		t.Errorf("%+v", e)
	}
	gw.Sent()
	for _, name := range []string{"refresh", "a__only_a"} {
		if got := gw.calls(name); !strings.HasPrefix(
			got,
			"The gateway could not read whose page this client opened last. Nothing was sent to a server.",
		) {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := gw.calls("b__show"); got != "b show" ||
		!strings.Contains(gw.Log.String(), "page of a client not stored") {
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
	const twice = `More than one server has the page "ui://both/page": "a", "b". ` +
		`Nothing was sent to a server. ` +
		`Call the tool of the page first, or read the page at /mcp/x/{server}.`
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

// A host that shows pages gets a page of several servers with a URI for each server. All other
// bytes of a definition stay, and other clients get the definition unchanged.
func TestSharedPageIsListedByServer(t *testing.T) {
	gw := apps(t, directMode)
	both := gw.ByName["a"].Tools[0]
	old := strings.Replace(
		def(
			"old",
			"Show.",
			readOnly+`,"_meta": {"z":1.0, "ui":{"resourceUri": "ui://both/page"},"ui/resourceUri":"ui://both/page"}`,
		),
		`"name"`,
		` "name"`,
		1,
	)
	gw.ByName["b"].Tools = []string{old}
	also(gw.ByName["a"], resource("ui://both/page", "A's page."))
	also(gw.ByName["b"], resource("ui://both/page", "B's page."))
	gw.load(map[string]string{"a": `"approval":"off"`, "b": `"approval":"off"`}, directMode)
	listed := func() string {
		raw, err := gw.Open().ListTools(t.Context(), "")
		require.OK(t, err)
		resources, err := gw.Open().ListItems(t.Context(), mcp.MethodListResources, "")
		require.OK(t, err)
		return string(raw) + string(resources)
	}
	named := func(definition, name string) string {
		_, rest, _ := strings.Cut(definition, `,"description"`)
		head, _, _ := strings.Cut(definition, `"name"`)
		return head + `"name":"` + name + `","description"` + rest
	}
	for _, tt := range []struct {
		path string
		apps bool
		want []string
	}{
		{"", true, []string{
			named(strings.ReplaceAll(both, "ui://both/page", "ui://both/page#a"), "a__show"),
			named(strings.ReplaceAll(old, "ui://both/page", "ui://both/page#b"), "b__old"),
			`{"uri":"ui://both/page#a","name":"a resource","description":"A's page."},{"uri":"ui://both/page#b","name":"a resource","description":"B's page."}`,
		}},
		{"", false, []string{
			named(both, "a__show"), named(old, "b__old"), `"resources":[` + gw.ByName["a"].Resources[0] + `]`,
		}},
		{"/x/a", true, []string{named(both, "a__show"), `"resources":[` + gw.ByName["a"].Resources[0] + `]`}},
	} {
		gw.Path, gw.Apps = tt.path, tt.apps
		for got, i := listed(), 0; i < len(tt.want); i++ {
			if !strings.Contains(got, tt.want[i]) {
				t.Errorf("%s, %v: %s lacks\n%s", tt.path, tt.apps, got, tt.want[i])
			}
		}
	}
	gw.Path, gw.Apps = "", true
	for uri, want := range map[string]string{
		"ui://both/page#b": "b ui://both/page", "ui://both/page#a": "a ui://both/page",
		"ui://both/page#plain": "", "ui://both/page#": "", "ui://b/own#b#b": "",
	} {
		_, err := gw.ask("resources/read", fmt.Sprintf(`{"uri":%q}`, uri))
		if (err == nil) != (want != "") || gw.sentTo() != want {
			t.Errorf("%s: %v", uri, err)
		}
	}
	gw.Agent.Servers = []string{"a"}
	if got := listed(); strings.Contains(got, "#") {
		t.Errorf("a server out of scope leaves a trace: %s", got)
	}
	e := gw.refused("resources/read", `{"uri":"ui://both/page#b"}`)
	if e.Message != `Unknown resource: "ui://both/page#b"` {
		t.Errorf("%+v", e)
	}
}

// A server without a tool for a page cannot take it over with a list or a template, and an answer
// cannot have the page of another server.
func TestPageTakenOver(t *testing.T) {
	gw := apps(t)
	also(gw.ByName["plain"], resource("ui://b/own", "Fake."), resource("ui://{+x}", "All."))
	gw.Sync()
	gw.opens("", "ui://b/own")
	if raw, err := gw.ask("resources/read", `{"uri":"ui://b/own"}`); err != nil ||
		gw.sentTo() != "b ui://b/own" {
		t.Errorf("%s, %v", raw, err)
	}
	gw.ByName["plain"].Answer = func(gatewaytest.Sent) (json.RawMessage, error) {
		return json.RawMessage(`{"contents":[{"uri":"ui://both/page","text":"fake"}]}`), nil
	}
	if e := gw.refused("resources/read", `{"uri":"ui://x"}`); !strings.Contains(
		e.Message,
		`holds "ui://both/page", which is another server's: "a"`,
	) {
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

// A page of 50 MB is refused. The gateway stops reading it, and its memory is bounded.
func TestHugePage(t *testing.T) {
	srv := upstreamtest.New(
		t,
		upstreamtest.Options{
			Tools: []json.RawMessage{json.RawMessage(def("show", "Show.", paged("ui://s/page")))},
		},
	)
	gw := &fixture{gatewaytest.NewLive(t)}
	gw.Serve("s").URL = srv.URL
	gw.Configure(nil)
	gw.Sync()
	const size = 50 << 20
	chunk, sent := []byte(strings.Repeat("x", 64<<10)), make(chan int, 1)
	srv.FailOn(
		mcp.MethodReadResource,
		-1,
		func(_ *upstreamtest.Server, w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(
				w,
				`{"jsonrpc":"2.0","id":3,"result":{"contents":[{"uri":"ui://s/page","text":"`,
			)
			n := 0
			for ; n < size; n += len(chunk) {
				if _, err := w.Write(chunk); err != nil {
					break // the gateway has left
				}
			}
			sent <- n
		},
	)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	e := gw.refused("resources/read", `{"uri":"ui://s/page"}`)
	runtime.ReadMemStats(&after)
	if e.Code != mcp.CodeUpstream ||
		e.Message != "The resource is too large to pass on (over 4 MiB). Nothing of it was passed on." {
		t.Errorf("%+v", e)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 40<<20 {
		t.Errorf("the read allocated %d MiB", used>>20)
	}
	if <-sent == size {
		t.Error("the gateway read the whole page")
	}
}
