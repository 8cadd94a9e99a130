package gateway_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/tokens"
)

var calls = []string{
	`{"name":"retrieve_tools","arguments":{"query":"document"}}`,
	`{"name":"describe_tools","arguments":{"names":["docs:read_document"]}}`,
	`{"name":"call_tool_read","arguments":{"name":"docs:read_document"}}`,
	`{"name":"upstream_servers","arguments":{}}`,
}

func TestSessionNotReady(t *testing.T) {
	gw := newFixture(t)
	for _, stage := range []string{"nothing stored", "config refused", "no catalog yet"} {
		want := ""
		switch stage {
		case "nothing stored":
			want = "This gateway has no configuration yet. No tool is known, and nothing was called. Its operator has to store one."
		case "config refused":
			gw.store("config/mcp_config.json", `{"mcpServers": {"s": {}}}`)
			want = "This gateway cannot use its configuration, which has faults. No tool is known, and nothing was called. Its operator has to fix it."
		case "no catalog yet":
			gw.Configure(nil)
			gw.Clock.Wait(30e9)
			want = "This gateway has not loaded the tools of its servers yet: its first sync is still running. No tool is known, and nothing was called. Try again shortly, and tell the gateway's operator if it lasts."
		}
		s := gw.Open()
		if got := s.Instructions(); !strings.Contains(got, "no server yet") || strings.Contains(got, "(the first sync is still running)") != (stage == "no catalog yet") {
			t.Errorf("%s: instructions %q", stage, got)
		}
		for _, params := range calls {
			raw, err := s.CallTool(t.Context(), parse(t, params), mcp.Client{})
			require.OK(t, err)
			if r := agenttest.ReadResult(t, raw); !r.IsError || r.Text != want {
				t.Errorf("%s: %s", stage, r.Raw)
			}
		}
		_, err := s.ListTools(t.Context(), "")
		e, ok := errors.AsType[*mcp.Error](err)
		if missing := stage != "no catalog yet"; missing != ok || ok && (e.Status != http.StatusServiceUnavailable || e.RetryAfter <= 0 || e.Code == -32603) {
			t.Errorf("%s: tools/list gives %v", stage, err)
		}
	}
	gw.sentNothing()
}

func TestSessionWithoutPolicy(t *testing.T) {
	gw := everyStatus(t)
	gw.search(`{"query":"document"}`)
	gw.Put(policy.Key, "forbid (")
	gw.States.Refresh(t.Context())
	if f := gw.search(`{"query":"read document"}`); f.Total == 0 {
		t.Error("a broken policy replaced the policy in memory")
	}
	gw.Restart()
	if f := gw.search(`{"query":"read document"}`); f.Total == 0 {
		t.Error("a broken policy replaced the last good policy")
	}
	gw.Put(catalog.PolicyFile.LastGood, "") // as if no policy had been used before
	gw.Restart()
	f := gw.search(`{"query":"read document","include_disabled":true}`)
	for _, d := range f.Disabled {
		if want := "disabled_unknown"; d.Status != want && !strings.HasPrefix(d.Name, "off:") && d.Name != "denied:purge_documents" {
			t.Errorf("%s is %s, want %s", d.Name, d.Status, want)
		}
	}
	if f.Total != 0 || len(f.Disabled) == 0 {
		t.Errorf("callable without a policy: %s", f.Raw)
	}
	if r := gw.Call("call_tool_read", `{"name":"docs:read_document"}`); !strings.Contains(r.Text, "disabled_unknown") {
		t.Errorf("call: %s", r.Text)
	}
}

func TestOpenRefused(t *testing.T) {
	gw := everyStatus(t)
	tests := []struct {
		name   string
		path   string
		header map[string]string
		status int
		data   string
		say    string
	}{
		{"unknown names, all at once", "", map[string]string{"X-Mcp-Toolsets": "nope,docs", "X-Mcp-Tools": "docs:zip"}, 400, `{"unknown_toolsets":["nope"],"unknown_tools":["docs:zip"],"conflicts":[]}`, ""},
		{"nothing left", "", map[string]string{"X-Mcp-Toolsets": ""}, 400, `{"unknown_toolsets":[],"unknown_tools":[],"conflicts":[]}`, "No tools left"},
		{"bad switch", "", map[string]string{"X-Mcp-Readonly": "maybe"}, 400, "", "maybe"},
		{"no such path", "/elsewhere", nil, 404, "", "not found"},
	}
	for _, tt := range tests {
		h := http.Header{}
		for k, v := range tt.header {
			h.Set(k, v)
		}
		_, err := gw.MCP.Open(t.Context(), gateway.Caller{Agent: gw.Agent, Path: tt.path, Header: h})
		e, ok := errors.AsType[*mcp.Error](err)
		if !ok || e.Code != -32602 || e.Status != tt.status || tt.data != "" && string(e.Data) != tt.data || !strings.Contains(e.Message, tt.say) {
			t.Errorf("%s: %+v", tt.name, err)
		}
	}
}

func TestIgnoredNames(t *testing.T) {
	gw := everyStatus(t)
	gw.Header = http.Header{"X-Mcp-Toolsets": {"docs,nope"}, "Prefer": {"handling=lenient"}}
	check := func(what string, raw json.RawMessage) {
		t.Helper()
		r := require.JSON[struct {
			Meta struct {
				Ignored []string `json:"dev.portcullis/ignored"`
			} `json:"_meta"`
		}](t, raw)
		if diff := cmp.Diff([]string{"nope"}, r.Meta.Ignored); diff != "" {
			t.Errorf("%s: %s", what, raw)
		}
	}
	for _, params := range append(calls[:2:2], calls[3], `{"name":"call_tool_read","arguments":{"name":"docs:none"}}`) {
		raw, err := gw.Try(params)
		require.OK(t, err)
		check(params, raw)
	}
	list, err := gw.Open().ListTools(t.Context(), "")
	require.OK(t, err)
	check("tools/list", list)
	raw, err := gw.Try(calls[2])
	if err != nil || strings.Contains(string(raw), "ignored") {
		t.Errorf("an upstream result was changed: %s, %v", raw, err)
	}
}

// List, search, describe, call and counts use the same selection.
func TestOneSelection(t *testing.T) {
	gw := newFixture(t)
	gw.Serve("files", def("create_file", "Create a file.", ""), def("get_file", "Get a file.", readOnly), def("delete_file", "Delete a file.", ""))
	gw.Serve("folders", def("create_folder", "Create a folder for a file.", ""))
	gw.Configure(nil, `"tools":{"disabled":["files:delete_file"]}`)
	gw.Sync()
	for _, tt := range []struct {
		header   http.Header
		path     string
		callable []string
		locked   []string
	}{
		{nil, "", []string{"files:create_file", "files:get_file", "folders:create_folder"}, []string{"files:delete_file"}},
		{http.Header{"X-Mcp-Toolsets": {"files"}}, "", []string{"files:create_file", "files:get_file"}, []string{"files:delete_file"}},
		{http.Header{"X-Mcp-Tools": {"delete_file"}}, "", nil, []string{"files:delete_file"}},
		{http.Header{"X-Mcp-Exclude-Tools": {"files:delete_file"}}, "/x/files", []string{"files:create_file", "files:get_file"}, nil},
		{nil, "/readonly", []string{"files:get_file"}, nil},
	} {
		gw.Header, gw.Path = tt.header, tt.path
		f := gw.search(`{"query":"file folder","include_disabled":true}`)
		callable, locked := f.names()
		for _, id := range []string{"files:create_file", "files:get_file", "files:delete_file", "folders:create_folder"} {
			isCallable, isLocked := slices.Contains(tt.callable, id), slices.Contains(tt.locked, id)
			if slices.Contains(callable, id) != isCallable || (locked[id] != "") != isLocked {
				t.Errorf("%v %s: search has %s callable %v, locked %v", tt.header, tt.path, id, slices.Contains(callable, id), locked[id])
			}
			d := gw.Call("describe_tools", fmt.Sprintf(`{"names":[%q]}`, id)).Text
			if strings.Contains(d, `"definition"`) != isCallable || strings.Contains(d, `"status"`) != isLocked {
				t.Errorf("%v %s: describe %s", tt.header, tt.path, d)
			}
			r := gw.Call("call_tool_destructive", fmt.Sprintf(`{"name":%q}`, id))
			if r.IsError == isCallable || strings.Contains(r.Text, "was not found") != (!isCallable && !isLocked) {
				t.Errorf("%v %s: call %s", tt.header, tt.path, r.Text)
			}
		}
	}
}

func TestInstructions(t *testing.T) {
	gw := everyStatus(t)
	got := gw.Open().Instructions()
	if strings.Count(got, "\n") != 1 || !strings.Contains(got, "docs, denied, broken, moved, off, user, waiting.") {
		t.Errorf("got %q", got)
	}
	gw.Agent.Servers = []string{"docs", "user"}
	if got := gw.Open().Instructions(); !strings.Contains(got, "docs, user.") || strings.Contains(got, "waiting") {
		t.Errorf("instructions with a scope of two = %q", got)
	}
	gw = newFixture(t)
	for i := range 50 {
		gw.Serve(fmt.Sprintf("s%02d", i), def("a", "A.", ""))
	}
	gw.Configure(nil)
	gw.Sync()
	if got := gw.Open().Instructions(); !strings.Contains(got, "s15 and 34 more (upstream_servers lists them)") || strings.Contains(got, "s16") {
		t.Errorf("instructions with 50 servers = %q", got)
	}
}

func TestManyAgents(t *testing.T) {
	gw := everyStatus(t)
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			agent := gw.Agent
			agent.ID = fmt.Sprint("agent-", n%4)
			for range 20 {
				s, err := gw.MCP.Open(t.Context(), gateway.Caller{Agent: agent})
				if err != nil {
					t.Error(err)
					return
				}
				for _, params := range calls {
					if _, err := s.CallTool(t.Context(), parse(t, params), mcp.Client{}); err != nil {
						t.Error(err)
					}
				}
				if n == 0 {
					gw.Clock.Wait(time.Second)
				}
			}
		})
	}
	wg.Wait()
	if n := len(gw.Sent()); n != 16*20 {
		t.Errorf("%d calls reached the server, want %d", n, 16*20)
	}
}

// Every agent pays for the instructions in every conversation. Servers with many tools are named
// first, within the size limit.
func TestInstructionsSize(t *testing.T) {
	gw := newFixture(t)
	gw.Configure(nil)
	settings := map[string]string{}
	for i := range 70 {
		name := fmt.Sprintf("%s-%02d", []string{"github", "weather", "postgres", "calendar", "notion"}[i%5], i)
		settings[name] = `"approval":"off"`
		tools := []string{def("act", "Act.", "")}
		if i == 42 {
			tools = append(tools, def("more", "Do more.", ""), def("most", "Do most.", ""))
		}
		gw.Serve(name, tools...)
	}
	gw.Configure(settings)
	gw.Sync()
	got := gw.Open().Instructions()
	if n := tokens.Count(t, got); n > 80 {
		t.Errorf("%d tokens, want <= 80: %s", n, got)
	}
	if !strings.HasPrefix(got, "Gateway to the tools of: postgres-42, calendar-03, ") || !strings.Contains(got, " more (upstream_servers lists them). Find them with retrieve_tools") {
		t.Errorf("instructions %q", got)
	}
}

func TestInstructionsOfRealServers(t *testing.T) {
	got := realTools(t, 527).Open().Instructions()
	n := tokens.Count(t, got)
	t.Logf("%d tokens: %s", n, got)
	if n > 80 {
		t.Errorf("%d tokens, want <= 80", n)
	}
}
