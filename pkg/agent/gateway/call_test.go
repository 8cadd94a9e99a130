package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

func TestCallLocked(t *testing.T) {
	gw := everyStatus(t)
	golden := map[string]string{
		"denied:shred_document": "blocked_by_config", "user:share_document": "blocked_by_user",
		"waiting:upload_document": "blocked_pending", "off:print_document": "blocked_server", "broken:fax_document": "blocked_unknown",
	}
	for name, status := range lockedTools {
		for _, tier := range []string{"read", "write", "destructive"} { // the answer is the same
			counts := gw.counting()
			r := gw.Call("call_tool_"+tier, fmt.Sprintf(`{"name":%q,"args":{}}`, name))
			checkLocked(t, name, status, r)
			if want := (observe.Target{Name: name, By: status}); counts.Blocked != want {
				t.Errorf("counted %+v, want %+v", counts.Blocked, want)
			}
			if file, ok := golden[name]; ok {
				checkAnswer(t, file, r.Raw)
			}
		}
	}
	gw.sentNothing()
}

// checkLocked checks the answer to the call of a locked tool.
func checkLocked(t *testing.T, name, status string, r agenttest.Result) {
	t.Helper()
	lock := require.JSON[struct{ Name, Status, Remediation, Note, Link string }](t, r.Meta["dev.portcullis/lock"])
	if !r.IsError || lock.Name != name || lock.Status != status || lock.Remediation == "" {
		t.Errorf("%s: %s", name, r.Raw)
	}
	for _, part := range []string{status, lock.Remediation, lock.Note, "retrieve_tools include_disabled:true"} {
		if !strings.Contains(r.Text, part) {
			t.Errorf("%s: the text does not say %q: %s", name, part, r.Text)
		}
	}
	user := status == "disabled_by_user" || status == "pending_approval"
	if want := gatewaytest.BaseURL + "/admin/tools/" + strings.ReplaceAll(name, ":", "/"); (lock.Link == want) != user || strings.Contains(r.Text, "Ask the user") != user {
		t.Errorf("%s: link %q, text %s", name, lock.Link, r.Text)
	}
	if (lock.Note != "") != (name == "denied:shred_document") {
		t.Errorf("%s: note %q", name, lock.Note)
	}
}

// With "locked": "result", the answer to a locked call has the same text, but is no error. The
// setting is for clients that count errors.
func TestCallLockedAsResult(t *testing.T) {
	gw := everyStatus(t)
	const user = `{"name":"user:share_document"}`
	want := strings.Replace(gw.Call("call_tool_read", user).Raw, `"isError":true,`, "", 1)
	gw.reconfigure(nil, `"gateway": {"locked": "result"}`)
	if r := gw.Call("call_tool_read", user); r.IsError || r.Raw != want {
		t.Errorf("got %s, want %s", r.Raw, want)
	}
	if r := gw.Call("call_tool_read", `{"name":"docs:delete_document"}`); !r.IsError {
		t.Errorf("a refusal for another reason: %s", r.Raw)
	}
	gw.sentNothing()
}

func TestCallNotFound(t *testing.T) {
	gw := everyStatus(t)
	gw.Agent.Servers = []string{"docs", "waiting"}
	gw.Header = map[string][]string{"X-Mcp-Exclude-Tools": {"docs:write_document"}}
	shape := ""
	for _, name := range []string{
		"docs:nothing", "docs:write_document", "denied:purge_documents", "nowhere:read_document", "DOCS:read_document",
		"docs:read_document ", "docs:read:document", "read_document", ":", "docs__read_document",
	} {
		for _, tier := range []string{"read", "destructive"} {
			r := gw.Call("call_tool_"+tier, fmt.Sprintf(`{"name":%q,"args":{}}`, name))
			same := strings.Replace(r.Text, fmt.Sprintf("%q", name), "", 1)
			if shape == "" {
				shape = same
			}
			if !r.IsError || len(r.Meta) != 0 || same != shape || !strings.Contains(same, "was not found") {
				t.Errorf("%q: %s", name, r.Raw)
			}
		}
		d := gw.Call("describe_tools", fmt.Sprintf(`{"names":[%q]}`, name))
		if want := fmt.Sprintf(`{"tools":[],"not_found":[%q]}`, name); d.Text != want {
			t.Errorf("describe_tools: %s, want %s", d.Text, want)
		}
	}
	gw.sentNothing()
}

func TestCallTier(t *testing.T) {
	gw := everyStatus(t)
	tiers := []string{"read", "write", "destructive"}
	for n, own := range tiers {
		name := "docs:" + []string{"read", "write", "delete"}[n] + "_document"
		for m, variant := range tiers {
			r := gw.Call("call_tool_"+variant, fmt.Sprintf(`{"name":%q}`, name))
			correction := "call it with call_tool_" + own + ", not call_tool_" + variant
			refused, sent := strings.Contains(r.Text, correction), len(gw.Sent()) == 1
			if refused != (m < n) || r.IsError != refused || sent == refused {
				t.Errorf("%s by %s: sent %v, %s", name, variant, sent, r.Raw)
			}
		}
	}
}

func TestCallTierOfAgent(t *testing.T) {
	gw := everyStatus(t)
	gw.Options.Scope = func(tier tool.Tier) string { return "gate/" + tier.String() }
	gw.Restart()
	gw.Agent.Tiers = []tool.Tier{tool.Read}
	if r := gw.Call("call_tool_read", `{"name":"docs:read_document"}`); r.IsError {
		t.Errorf("read: %s", r.Text)
	}
	gw.Sent()
	_, err := gw.Try(`{"name":"call_tool_destructive","arguments":{"name":"docs:delete_document"}}`)
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok || e.Status != 403 || !strings.Contains(e.Message, "It needs the scope gate/destructive.") {
		t.Fatalf("destructive: %v", err)
	}
	if scope, ok := errors.AsType[*identity.Error](err); !ok || scope.Kind != identity.Scope || scope.Scopes[0] != "destructive" {
		t.Errorf("the refusal lacks its scope: %v", err)
	}
	// The lock comes before the tier: every agent can read why a tool is locked.
	if r := gw.Call("call_tool_destructive", `{"name":"waiting:upload_document"}`); !strings.Contains(r.Text, "pending_approval") {
		t.Errorf("locked: %s", r.Text)
	}
	gw.sentNothing()
}

func TestCallBytes(t *testing.T) {
	const args = `{"big":9007199254740993, "z":1e2,"a":{"new kind":[1,null]},"esc":"\u00e9\/"}`
	const answer = ` {"zeta":9007199254740993,"content":[{"type":"hologram","data":{"b":1,"a":2}}],"structuredContent":{"x":1.0},"_meta":{"k":"v"},"isError":true} `
	gw := everyStatus(t)
	gw.Traceparent = "00-1" // it is invalid, so it does not go to the server
	gw.ByName["docs"].Answer = func(gatewaytest.Sent) (json.RawMessage, error) { return json.RawMessage(answer), nil }
	counts := gw.counting()
	raw, err := gw.Open().CallTool(t.Context(), parse(t,
		`{"_meta":{"progressToken":1},"later":"opaque \u00e9","name":"call_tool_read","arguments":{"args":`+args+`,"name":"docs:read_document"},"more":{"q1":{"n":9007199254740993}}}`), mcp.Client{})
	if err != nil || string(raw) != answer {
		t.Errorf("got %s, %v; want the server's bytes", raw, err)
	}
	want := []gatewaytest.Sent{{
		Server: "docs", URL: "https://docs.example.com/mcp", Tool: "read_document", Retry: true,
		Params: `{"arguments":` + args + `,"later":"opaque \u00e9","more":{"q1":{"n":9007199254740993}}}`, Meta: `{"progressToken":1}`,
	}}
	same(t, "sent calls", want, gw.Sent())
	same(t, "counted call", observe.Target{Name: "docs:read_document", By: "read"}, counts.Called)
}

func TestCallDecision(t *testing.T) {
	gw := everyStatus(t)
	gw.search(`{"query":"document"}`) // loads the approvals, which the gateway caches for 2 s
	call := func(id string) bool {
		return !gw.Call("call_tool_destructive", fmt.Sprintf(`{"name":%q}`, id)).IsError
	}
	if call("waiting:upload_document") {
		t.Error("the tool is callable before its approval")
	}
	gw.Decide("waiting:upload_document", "approve")
	if !call("waiting:upload_document") {
		t.Error("the approved tool is not callable")
	}
	gw.Decide("docs:delete_document", "disable")
	if call("docs:delete_document") {
		t.Error("the disabled tool is callable")
	}
}

// The record names the approved definition. A call is refused if the catalog has another
// definition, even one that was approved before.
func TestCallOtherDefinition(t *testing.T) {
	gw := everyStatus(t)
	gw.search(`{"query":"document"}`)
	gw.Serve("docs", def("delete_document", "Delete a document, and all others.", ""))
	if _, err := gw.Syncer.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	// approves the new definition; the gateway still has the old one
	gw.Decide("docs:delete_document", "approve")
	if r := gw.Call("call_tool_destructive", `{"name":"docs:delete_document"}`); !r.IsError || !strings.Contains(r.Text, "pending_approval") {
		t.Errorf("%s", r.Raw)
	}
	gw.Clock.Wait(time.Minute)
	if r := gw.Call("call_tool_destructive", `{"name":"docs:delete_document"}`); r.IsError {
		t.Errorf("with the new catalog: %s", r.Raw)
	}
}

func TestCallRecordUnread(t *testing.T) {
	gw := everyStatus(t)
	gw.search(`{"query":"document"}`)
	reads := 0
	gw.Approvals.OnGet = func(context.Context, tool.ID) error { reads++; return errors.New("arn:aws:dynamodb:secret is down") }
	r := gw.Call("call_tool_read", `{"name":"docs:read_document"}`)
	if !r.IsError || !strings.Contains(r.Text, "disabled_unknown") || strings.Contains(r.Raw, "arn:aws") || reads != 1 {
		t.Errorf("%d reads, %s", reads, r.Raw)
	}
	if !strings.Contains(gw.Log.String(), "arn:aws") {
		t.Error("the log lacks the cause")
	}
	// A lock that no decision can end needs no record.
	for id, status := range map[string]string{"denied:purge_documents": "disabled_by_config", "off:print_document": "server_disabled"} {
		if r := gw.Call("call_tool_read", fmt.Sprintf(`{"name":%q}`, id)); !strings.Contains(r.Text, status) || reads != 1 {
			t.Errorf("%s: %d reads, %s", id, reads, r.Text)
		}
	}
	gw.sentNothing()
}

// args_test.go tests faults of arguments; this test checks that each tool reports them.
func TestCallBadArguments(t *testing.T) {
	gw := everyStatus(t)
	for _, tt := range []struct{ tool, args, want string }{
		{"call_tool_read", `{}`, "name is missing"},
		{"call_tool_read", `{"name":"docs:read_document","args":[]}`, "args must be an object with the tool's own arguments, not a list"},
		{"call_tool_read", `{"name":"docs:read_document","args":"{}"}`, "args must be an object"},
		{"call_tool_read", `{"name":"docs:read_document","id":"1"}`, `unknown argument "id": call_tool_read takes name, args`},
		{"describe_tools", `{"names":["a:b",{}]}`, "names[1] must be a string of the form server:tool, not an object"},
		{"describe_tools", `{"names":[],"detail":"x"}`, `unknown argument "detail"`},
		{"upstream_servers", `{"operation":"drop"}`, `operation must be list or get, not the string "drop"`},
		{"upstream_servers", `{"operation":"get"}`, "name is missing"},
		{"upstream_servers", `{"operation":"list","name":"docs"}`, "name is for operation get only"},
		{"upstream_servers", `{"server":"docs"}`, `unknown argument "server"`},
		{"upstream_servers", `{"operation":"get","name":"docs","after":"a"}`, "after is for a list"},
		{"upstream_servers", `{"name":"docs","after":"a"}`, "leave one of the two out"},
	} {
		if r := gw.Call(tt.tool, tt.args); !r.IsError || !strings.Contains(r.Text, tt.want) {
			t.Errorf("%s %s: %s, want %q", tt.tool, tt.args, r.Text, tt.want)
		}
	}
	for params, want := range map[string]string{
		`{"name":"docs__read_document"}`:              `Unknown tool: "docs__read_document"`,
		`{"name":"` + strings.Repeat("x", 500) + `"}`: `Unknown tool: "` + strings.Repeat("x", 79) + `…"`,
	} {
		_, err := gw.Try(params)
		if e, ok := errors.AsType[*mcp.Error](err); !ok || e.Code != -32602 || !strings.Contains(e.Message, want) {
			t.Errorf("%s: %v, want -32602 %q", params, err, want)
		}
	}
	gw.sentNothing()
}

func TestCallable(t *testing.T) {
	gw := everyStatus(t)
	all := gw.Open().Callable()
	gw.Agent.Tiers = []tool.Tier{tool.Read}
	if read := gw.Open().Callable(); read == 0 || read >= all {
		t.Errorf("callable tools: %d with all tiers, %d with tier read", all, read)
	}
	gw.Agent.Servers = nil
	if n := gw.Open().Callable(); n != 0 {
		t.Errorf("%d callable tools without a server, want 0", n)
	}
}

// A new process takes each server's protocol from the catalog, for its calls and its syncs.
func TestLiveEraIsRemembered(t *testing.T) {
	tools := []json.RawMessage{json.RawMessage(def("act", "Act.", ""))}
	o := upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: true, Tools: tools}
	srv := upstreamtest.New(t, o)
	gw := gatewaytest.NewLive(t)
	gw.Serve("s").URL = srv.URL
	gw.Configure(nil)
	gw.Sync()
	if len(srv.Received("server/discover")) != 1 {
		t.Fatal("the first sync did not send server/discover")
	}
	srv.ForgetRequests()
	gw.Restart()
	if r := gw.Call("call_tool_destructive", `{"name":"s:act"}`); r.IsError {
		t.Fatalf("call: %s", r.Raw)
	}
	gw.Restart()
	gw.Sync()
	discovers, lists := len(srv.Received("server/discover")), len(srv.Received("tools/list"))
	if discovers != 0 || lists != 1 || len(srv.Calls()) != 1 {
		t.Errorf("after restarts: %d discovers, %d lists", discovers, lists)
	}
}

// An upstream call has 20 s and a request 25 s, so that there is time to answer before the function
// ends at 28 s. An operator can give a server less time, but not more.
func TestCallTimeout(t *testing.T) {
	for setting, want := range map[string]time.Duration{
		``: 20 * time.Second, `"timeout":"3s"`: 3 * time.Second, `"timeout":"20s"`: 20 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			gw := serving(t, setting, "", def("act", "Act.", ""))
			var may, left time.Duration
			call := func(ctx context.Context, to upstream.Target, _ upstream.Call) (json.RawMessage, error) {
				end, _ := ctx.Deadline()
				may, left = to.Timeout, time.Until(end)
				return json.RawMessage(complete), nil
			}
			gw.Upstream = &scripted{gw.Servers, call}
			gw.Restart()
			if r := gw.Call("call_tool_destructive", `{"name":"s:act"}`); r.IsError {
				t.Fatal(r.Text)
			}
			if may != want || left != 25*time.Second {
				t.Errorf("%s: the call may take %v, the request has %v left", setting, may, left)
			}
		})
	}
}
