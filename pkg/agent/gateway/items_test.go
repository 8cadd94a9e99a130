package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

var (
	prompt   = gatewaytest.Prompt
	resource = gatewaytest.Resource
)

// itemStatuses are the servers of everyItem. Each has one tool, one prompt, one resource and one
// template, all locked for the same reason.
var itemStatuses = map[string]string{
	"open": "", "denied": "disabled_by_config", "user": "disabled_by_user", "waiting": "pending_approval",
	"off": "server_disabled", "broken": "disabled_unknown",
}

// everyItem returns a gateway with items of every status.
func everyItem(t testing.TB, rest ...string) *fixture {
	gw := newFixture(t)
	for name := range itemStatuses {
		also(gw.Serve(name, def("act", "Act.", readOnly)), prompt("ask", "Ask of "+name+"."), resource(name+":///it", "It of "+name+"."), resource(name+":///t/{x}", "Those of "+name+"."))
	}
	gw.Forbid(`@id("records") @reason("Records are kept for ten years") forbid (principal, action, resource) when { resource.server == "denied" };
@id("cannot-tell") forbid (principal, action, resource) when { resource.server == "broken" && principal.floor > 2 };`)
	settings := map[string]string{"waiting": `"approval":"manual"`}
	gw.load(settings, rest...)
	for _, item := range []string{"act", "prompt:ask", "resource:user:///it", "resource:user:///t/{x}"} {
		gw.Decide("user:"+item, "disable")
	}
	settings["off"] = `"enabled":false`
	gw.load(settings, rest...)
	return gw
}

// ask sends a request that is not about tools.
func (gw *fixture) ask(method, params string) (string, error) {
	gw.T.Helper()
	r, refused := mcp.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`))
	if refused != nil {
		gw.T.Fatalf("%s %s: %v", method, params, refused)
	}
	raw, err := gw.Open().GetItem(gw.T.Context(), r, mcp.Client{})
	return string(raw), err
}

// refused sends a request that must be refused with an error.
func (gw *fixture) refused(method, params string) *mcp.Error {
	gw.T.Helper()
	raw, err := gw.ask(method, params)
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok {
		gw.T.Fatalf("%s %s: %s, %v", method, params, raw, err)
	}
	return e
}

// list reads every page of a list.
func (gw *fixture) list(method, member, key string) (names []string) {
	gw.T.Helper()
	for cursor := ""; ; {
		raw, err := gw.Open().ListItems(gw.T.Context(), method, cursor)
		if e, ok := errors.AsType[*mcp.Error](err); ok && e.Code == mcp.CodeMethodNotFound {
			return nil
		}
		require.OK(gw.T, err)
		page := require.JSON[map[string]json.RawMessage](gw.T, raw)
		for _, entry := range require.JSON[[]map[string]json.RawMessage](gw.T, page[member]) {
			names = append(names, require.JSON[string](gw.T, entry[key]))
		}
		if page["nextCursor"] == nil {
			return names
		}
		cursor = require.JSON[string](gw.T, page["nextCursor"])
	}
}

func (gw *fixture) lists() string {
	gw.T.Helper()
	return strings.Join(slices.Concat(gw.list("prompts/list", "prompts", "name"), gw.list("resources/list", "resources", "uri"),
		gw.list("resources/templates/list", "resourceTemplates", "uriTemplate")), " ")
}

// The lists contain the callable items, in both modes.
func TestItemLists(t *testing.T) {
	for _, rest := range [][]string{nil, {directMode}} {
		gw := everyItem(t, rest...)
		if got := gw.lists(); got != "open__ask open:///it open:///t/{x}" {
			t.Errorf("%v: %s", rest, got)
		}
		if o := gw.Open().Offers(); !o.Prompts || !o.Resources || !o.Completions {
			t.Errorf("%+v", o)
		}
	}
	gw := everyItem(t)
	for _, method := range []string{"prompts/list", "resources/list", "resources/templates/list"} {
		raw, err := gw.Open().ListItems(t.Context(), method, "")
		require.OK(t, err)
		checkAnswer(t, strings.ReplaceAll(strings.TrimSuffix(method, "/list"), "/", "_")+"_list", string(raw))
		if _, err := gw.Open().ListItems(t.Context(), method, "nonsense"); err == nil || !strings.Contains(err.Error(), "Invalid cursor") {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// A listed definition has its server's bytes, except for the name of a prompt.
func TestItemListBytes(t *testing.T) {
	gw := newFixture(t)
	also(gw.Serve("s"), `{ "arguments":[],"zeta": 9007199254740993, "name" : "p" ,"x":{"b":1,"a":2}}`,
		`{"name":"r", "uri":"a:b?c#\u00e9","size":1.50,"_meta":{"n":9007199254740993}}`)
	gw.load(nil)
	raw, err := gw.Open().ListItems(t.Context(), "prompts/list", "")
	if want := `{"prompts":[{ "arguments":[],"zeta": 9007199254740993, "name" : "s__p" ,"x":{"b":1,"a":2}}],"ttlMs":30000}`; err != nil || string(raw) != want {
		t.Errorf("%s, %v, want %s", raw, err, want)
	}
	raw, err = gw.Open().ListItems(t.Context(), "resources/list", "")
	if want := `{"resources":[` + gw.ByName["s"].Resources[0] + `],"ttlMs":30000}`; err != nil || string(raw) != want {
		t.Errorf("%s, %v, want %s", raw, err, want)
	}
}

func TestGetItem(t *testing.T) {
	gw := everyItem(t)
	for _, tt := range []struct{ method, params, name, sent, answer string }{
		{"prompts/get", `{"name":"open__ask","arguments":{"about":"b\u00e9"}}`, "ask", `{"arguments":{"about":"b\u00e9"}}`, `{"messages":[{"role":"user","content":{"type":"text","text":"ask"}}]}`},
		{"resources/read", `{"uri":"open:///it","later":"s"}`, "open:///it", `{"later":"s"}`, `{"contents":[{"uri":"open:///it","text":"read"}]}`},
		{"resources/read", `{"uri":"open:///t/1"}`, "open:///t/1", `{}`, `{"contents":[{"uri":"open:///t/1","text":"read"}]}`},
		{"completion/complete", `{"argument":{"name":"about","value":""},"ref":{"type":"ref/prompt","name":"open__ask","x":1}}`, "",
			`{"ref":{"type":"ref/prompt","name":"ask","x":1},"argument":{"name":"about","value":""}}`, `{"completion":{"values":["one"]}}`},
		{"completion/complete", `{"argument":{"name":"x","value":""},"ref":{"type":"ref/resource","uri":"open:///t/{x}"}}`, "",
			`{"ref":{"type":"ref/resource","uri":"open:///t/{x}"},"argument":{"name":"x","value":""}}`, `{"completion":{"values":["one"]}}`},
	} {
		counts := gw.counting()
		raw, err := gw.ask(tt.method, tt.params)
		if err != nil || raw != tt.answer {
			t.Errorf("%s %s: %s, %v", tt.method, tt.params, raw, err)
		}
		want := []gatewaytest.Sent{{Server: "open", URL: "https://open.example.com/mcp", Tool: tt.name, Params: tt.sent, Retry: true, Method: tt.method}}
		same(t, tt.method, want, gw.Sent())
		if got := counts.Called; !strings.HasPrefix(got.Name, "open:") || got.By != "read" {
			t.Errorf("%s: counted %q", tt.method, got)
		}
	}
}

// The lock of a prompt or a resource has the same content as the lock of a tool, with words for its
// kind. The gateway sends nothing to a server.
func TestItemLocked(t *testing.T) {
	gw := everyItem(t)
	for server, status := range itemStatuses {
		if status == "" {
			continue
		}
		r := gw.Call("call_tool_read", fmt.Sprintf(`{"name":"%s:act"}`, server))
		template := "resource:" + server + ":///t/{x}"
		ofTool := string(r.Meta["dev.portcullis/lock"])
		for _, item := range []struct{ method, params, id string }{
			{"prompts/get", `{"name":"` + server + `__ask"}`, "prompt:ask"},
			{"resources/read", `{"uri":"` + server + `:///it"}`, "resource:" + server + ":///it"},
			{"resources/read", `{"uri":"` + server + `:///t/7"}`, template},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"` + server + `__ask"},"argument":{"name":"about","value":""}}`, "prompt:ask"},
			{"completion/complete", `{"ref":{"type":"ref/resource","uri":"` + server + `:///t/{x}"},"argument":{"name":"x","value":""}}`, template},
		} {
			counts := gw.counting()
			e := gw.refused(item.method, item.params)
			id := gatewaytest.ID(t, server+":"+item.id)
			kind, page := id.Kind.String(), id.Name
			if kind == "resource" {
				page = id.Sum()
			}
			same := strings.NewReplacer(
				id.String(), server+":act", "This "+kind, "This tool", "/admin/"+kind+"s/"+server+"/"+page, "/admin/tools/"+server+"/act",
				"Prompt is disabled and cannot be used.", "Tool is disabled and not callable.",
				"Resource is disabled and cannot be read.", "Tool is disabled and not callable.",
			).Replace(string(e.Data))
			if e.Code != 4030 || e.Status != 0 || same != ofTool ||
				!strings.Contains(e.Message, " is locked: "+status) {
				t.Errorf("%s: %d %s\n%s\nof the tool:\n%s", item.params, e.Code, e.Message, same, ofTool)
			}
			if id.Name == "waiting:///it" {
				checkAnswer(t, "locked_resource", string(e.Data))
			}
			if got := counts.Blocked; got.Name != id.String() || got.By != status {
				t.Errorf("counted %+v", got)
			}
		}
	}
	gw.sentNothing()
}

// A decision takes effect immediately, because each request reads the record. A record that cannot
// be read locks the item.
func TestItemLockedNow(t *testing.T) {
	gw := everyItem(t)
	gw.Decide("open:prompt:ask", "disable")
	gw.Decide("open:resource:open:///t/{x}", "disable")
	gw.Decide("user:resource:user:///it", "enable")
	for method, params := range map[string]string{"prompts/get": `{"name":"open__ask"}`, "resources/read": `{"uri":"open:///t/1"}`} {
		if e := gw.refused(method, params); e.Code != 4030 || !strings.Contains(e.Message, "disabled_by_user") {
			t.Errorf("%s: %+v", method, e)
		}
	}
	if raw, err := gw.ask("resources/read", `{"uri":"user:///it"}`); err != nil {
		t.Errorf("%s, %v", raw, err)
	}
	gw.Approvals.OnGet = func(context.Context, tool.ID) error { return errors.New("no table") }
	if e := gw.refused("resources/read", `{"uri":"open:///it"}`); e.Code != 4030 || !strings.Contains(e.Message, "disabled_unknown") {
		t.Errorf("%+v", e)
	}
}

func TestItemUnknown(t *testing.T) {
	gw := everyItem(t)
	gw.Agent.Servers = []string{"open", "waiting"}
	for _, tt := range []struct{ method, params, want string }{
		{"prompts/get", `{"name":"ask"}`, `Unknown prompt: "ask"`},
		{"prompts/get", `{"name":"denied__ask"}`, `Unknown prompt: "denied__ask"`},
		{"prompts/get", `{"name":"open__act"}`, `Unknown prompt: "open__act"`},
		{"resources/read", `{"uri":"denied:///it"}`, `Unknown resource: "denied:///it"`},
		{"resources/read", `{"uri":"open:///nothing"}`, `Unknown resource: "open:///nothing"`},
		{"resources/read", `{"uri":"open:///t/a b"}`, `Unknown resource: "open:///t/a b"`},
		{"resources/read", `{"uri":"open:///t/\u0000"}`, `Unknown resource: "open:///t/\x00"`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"denied__ask"},"argument":{"name":"a","value":""}}`, `Unknown prompt: "denied__ask"`},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":"denied:///t/{x}"},"argument":{"name":"a","value":""}}`, `Unknown resource: "denied:///t/{x}"`},
	} {
		e := gw.refused(tt.method, tt.params)
		if e.Code != -32602 || e.Message != tt.want || strings.Contains(tt.want, "resource") != strings.Contains(string(e.Data), `{"uri":"`) {
			t.Errorf("%s %s: %d %q %s", tt.method, tt.params, e.Code, e.Message, e.Data)
		}
	}
	gw.sentNothing()
}

func TestItemTierOfAgent(t *testing.T) {
	gw := everyItem(t)
	gw.Agent.Tiers = []tool.Tier{tool.Write}
	e := gw.refused("resources/read", `{"uri":"open:///it"}`)
	scope, ok := errors.AsType[*identity.Error](e)
	if e.Status != http.StatusForbidden || !ok || scope.Kind != identity.Scope || scope.Scopes[0] != "read" {
		t.Errorf("%+v", e)
	}
	if e := gw.refused("prompts/get", `{"name":"waiting__ask"}`); e.Code != 4030 {
		t.Errorf("got %+v, want the lock", e)
	}
	gw.sentNothing()
}

// The selection of a request applies to prompts and resources as it does to tools. If it
// contains no prompt and no resource, the methods for them do not exist.
func TestItemSelection(t *testing.T) {
	gw := everyItem(t)
	gw.Path = "/readonly"
	if got := gw.lists(); got != "open__ask open:///it open:///t/{x}" {
		t.Errorf("/readonly: %s", got)
	}
	gw.Path, gw.Header = "", http.Header{"X-Mcp-Exclude-Tools": {"open:prompt:ask"}}
	if got := gw.lists(); got != "open:///it open:///t/{x}" {
		t.Errorf("without the prompt: %s", got)
	}
	gw.Header = http.Header{"X-Mcp-Tools": {"open:act"}}
	if o := gw.Open().Offers(); o.Prompts || o.Resources || o.Completions {
		t.Errorf("only the tool is selected: %+v", o)
	}
	for method, params := range map[string]string{
		"prompts/get": `{"name":"open__ask"}`, "resources/read": `{"uri":"open:///it"}`,
		"completion/complete": `{"ref":{"type":"ref/prompt","name":"open__ask"},"argument":{"name":"a","value":""}}`,
	} {
		if e := gw.refused(method, params); e.Code != mcp.CodeMethodNotFound || e.Message != "method not found" {
			t.Errorf("%s: %+v", method, e)
		}
	}
	for _, method := range []string{"prompts/list", "resources/list", "resources/templates/list"} {
		if _, err := gw.Open().ListItems(t.Context(), method, ""); err == nil || err.Error() != "method not found" {
			t.Errorf("%s: %v", method, err)
		}
	}
	gw.sentNothing()
}

func TestItemFailed(t *testing.T) {
	gw := everyItem(t)
	var err error
	gw.ByName["open"].Answer = func(gatewaytest.Sent) (json.RawMessage, error) { return nil, err }
	for _, tt := range []struct {
		err     error
		code    int
		message string
		data    string
	}{
		{&outcome.RPCError{Code: -32002, Message: "gone", Data: json.RawMessage(`{"n":9007199254740993}`)}, -32002, "gone", `{"n":9007199254740993}`},
		{&outcome.CallError{Delivered: true, Outcome: outcome.Outcome{Status: outcome.Available, Reason: outcome.ReasonTooLarge}}, 5020,
			"The resource is too large to pass on (over 4 MiB). Nothing of it was passed on.", `{"server":"open","status":"available","reason":"too_large","delivered":true}`},
		{&outcome.CallError{Delivered: true, Repeatable: true, Outcome: outcome.Outcome{Status: outcome.Transient, Reason: outcome.ReasonTimeout, Duration: 20 * time.Second}}, 5020,
			"No answer after 20 s. The request was sent; to ask for a resource again does no harm.", `{"server":"open","status":"transient","reason":"timeout","delivered":true}`},
	} {
		err = tt.err
		e := gw.refused("resources/read", `{"uri":"open:///it"}`)
		if e.Code != tt.code || e.Message != tt.message || string(e.Data) != tt.data {
			t.Errorf("%v: %d %q %s", tt.err, e.Code, e.Message, e.Data)
		}
	}
	// The gateway sends no request to a server that has just failed to load.
	gw.ByName["open"].Outcome = outcome.Outcome{Status: outcome.Permanent, Reason: outcome.ReasonRefused}
	gw.Sync()
	gw.Sent()
	if e := gw.refused("prompts/get", `{"name":"open__ask"}`); e.Code != 5020 || !strings.Contains(e.Message, "refuses connections") {
		t.Errorf("%+v", e)
	}
	gw.sentNothing()
}

func TestItemsNotReady(t *testing.T) {
	gw := newFixture(t)
	if _, err := gw.Open().ListItems(t.Context(), "prompts/list", ""); err == nil || !strings.Contains(err.Error(), "has no configuration yet") {
		t.Errorf("%v", err)
	}
	if e := gw.refused("resources/read", `{"uri":"a:b"}`); e.Status != http.StatusServiceUnavailable || e.RetryAfter == 0 {
		t.Errorf("%+v", e)
	}
	if o := gw.Open().Offers(); o.Prompts || o.Resources || o.Completions {
		t.Errorf("%+v", o)
	}
}

// also adds definitions to a server's lists: to the resources if it has a URI, otherwise to the
// prompts.
func also(s *gatewaytest.Server, definitions ...string) {
	for _, d := range definitions {
		if o, _ := rawjson.Split([]byte(d), rawjson.Lenient); o.Get("uri") != nil || o.Get("uriTemplate") != nil {
			s.Resources = append(s.Resources, d)
		} else {
			s.Prompts = append(s.Prompts, d)
		}
	}
}

// FuzzGetItem sends arbitrary params to every method about prompts and resources. Each has an
// answer or an error, and no locked item is ever requested.
func FuzzGetItem(f *testing.F) {
	methods := []string{mcp.MethodGetPrompt, mcp.MethodReadResource, mcp.MethodComplete}
	for _, params := range []string{
		`{"name":"open__ask","arguments":{"about":"x"}}`, `{"name":"waiting__ask"}`, `{"uri":"open:///it"}`, `{"uri":"denied:///t/1"}`, `{"uri":"open:///t/%00"}`,
		`{"ref":{"type":"ref/prompt","name":"user__ask"},"argument":{"name":"about","value":""}}`, `{"ref":{"type":"ref/resource","uri":"off:///t/{x}"},"argument":{"name":"x","value":""}}`,
		`{"uri":"open:///t/x","requestState":1,"inputResponses":[]}`, `{"name":""}`, `{"uri":"\u0000"}`, `{}`,
	} {
		for i := range methods {
			f.Add(i, []byte(params))
		}
	}
	gw := everyItem(f)
	f.Fuzz(func(t *testing.T, i int, params []byte) {
		r, refused := mcp.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"` + methods[uint(i)%3] + `","params":` + string(params) + `}`))
		if refused != nil {
			return
		}
		gw.T = t
		raw, err := gw.Open().GetItem(t.Context(), r, mcp.Client{})
		if err == nil && !json.Valid(raw) {
			t.Errorf("%q: the result is no JSON: %q", params, raw)
		}
		if e, ok := errors.AsType[*mcp.Error](err); err != nil && (!ok || e.Message == "" || e.Data != nil && !json.Valid(e.Data)) {
			t.Errorf("%q: %v", params, err)
		}
		for _, c := range gw.Sent() {
			if c.Server != "open" || !json.Valid([]byte(c.Params)) {
				t.Errorf("%q sent %+v", params, c)
			}
		}
	})
}
