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
			gw.reconfigure(nil)
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

func TestOpenRefused(t *testing.T) {
	gw := everyStatus(t)
	for _, tt := range []struct {
		path   string
		header http.Header
		status int
		data   string
		say    string
	}{
		{
			"", http.Header{"X-Mcp-Toolsets": {"nope,docs"}}, 400,
			`{"unknown_toolsets":["nope"],"unknown_tools":[],"conflicts":[]}`, "nope",
		},
		{"", http.Header{"X-Mcp-Readonly": {"maybe"}}, 400, "", "maybe"},
		{"/elsewhere", nil, 404, "", "not found"},
	} {
		gw.Path, gw.Header = tt.path, tt.header
		_, err := gw.MCP.Open(t.Context(), gw.Caller)
		e, ok := errors.AsType[*mcp.Error](err)
		if !ok || e.Code != -32602 || e.Status != tt.status || tt.data != "" && string(e.Data) != tt.data || !strings.Contains(e.Message, tt.say) {
			t.Errorf("%s %v: %+v", tt.path, tt.header, err)
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

// List, search, describe and call use the same selection, in both modes. It contains no item out of
// the agent's scope.
func TestOneSelection(t *testing.T) {
	ids := []string{
		"files:create_file", "files:get_file", "files:delete_file", "folders:create_folder",
		"foreign:get_file",
	}
	for _, mode := range []string{"search", "direct"} {
		gw := newFixture(t)
		gw.Serve("files", def("create_file", "Create a file.", ""), def("get_file", "Get a file.", readOnly), def("delete_file", "Delete a file.", ""))
		gw.Serve("folders", def("create_folder", "Create a folder for a file.", ""))
		gw.Serve("foreign", def("get_file", "Get a file.", readOnly))
		gw.load(
			nil, `"tools":{"disabled":["files:delete_file"]}`,
			`"toolsets":{"mixed":["foreign:*","folders:*"]}`, `"gateway":{"mode":"`+mode+`"}`,
		)
		gw.Agent.Servers = []string{"files", "folders"}
		mild := []string{"handling=lenient"}
		for _, tt := range []struct {
			header http.Header
			path   string
			want   string // for each id: callable, locked or none
		}{
			{nil, "", "cclcn"},
			{http.Header{"X-Mcp-Toolsets": {"files"}}, "", "cclnn"},
			{http.Header{"X-Mcp-Toolsets": {"mixed"}}, "", "nnncn"},
			{http.Header{"X-Mcp-Tools": {"delete_file,foreign:get_file"}, "Prefer": mild}, "", "nnlnn"},
			{http.Header{"X-Mcp-Exclude-Tools": {"files:delete_file"}}, "/x/files", "ccnnn"},
			{nil, "/readonly", "ncnnn"},
		} {
			gw.Header, gw.Path = tt.header, tt.path
			for n, id := range ids {
				for _, got := range gw.selected(mode, id) {
					if got != tt.want[n] {
						t.Errorf("%s, %v %s: %s is %c", mode, tt.header, tt.path, id, got)
					}
				}
			}
		}
	}
}

// selected returns how lists and calls show a tool: c: callable, l: locked, n: not at all.
func (gw *fixture) selected(mode, id string) []byte {
	gw.T.Helper()
	of := func(callable, locked bool) byte {
		switch {
		case callable:
			return 'c'
		case locked:
			return 'l'
		}
		return 'n'
	}
	if mode == "direct" {
		name := strings.Replace(id, ":", "__", 1)
		raw, err := gw.Try(fmt.Sprintf(`{"name":%q}`, name))
		call := of(err == nil && !strings.Contains(string(raw), "isError"), err == nil)
		return []byte{of(slices.Contains(strings.Fields(gw.menuOf()), name), call == 'l'), call}
	}
	callable, locked := gw.search(`{"query":"file folder","include_disabled":true}`).names()
	d := gw.Call("describe_tools", fmt.Sprintf(`{"names":[%q]}`, id)).Text
	r := gw.Call("call_tool_destructive", fmt.Sprintf(`{"name":%q}`, id))
	return []byte{
		of(slices.Contains(callable, id), locked[id] != ""),
		of(strings.Contains(d, `"definition"`), strings.Contains(d, `"status"`)),
		of(!r.IsError, strings.Contains(r.Text, "is locked")),
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
	gw.reconfigure(nil, directMode)
	gw.Header = http.Header{"X-Mcp-Toolsets": {"docs"}}
	if got := gw.Open().Instructions(); !strings.Contains(got, ": docs.\nLocked tools are not listed.") {
		t.Errorf("instructions in direct mode with a selection = %q", got)
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
	for i := range 70 {
		name := fmt.Sprintf("%s-%02d", []string{"github", "weather", "postgres", "calendar", "notion"}[i%5], i)
		tools := []string{def("act", "Act.", "")}
		if i == 42 {
			tools = append(tools, def("more", "Do more.", ""), def("most", "Do most.", ""))
		}
		gw.Serve(name, tools...)
	}
	gw.load(nil)
	got := gw.Open().Instructions()
	if n := tokens.Count(t, got); n > 80 {
		t.Errorf("%d tokens, want <= 80: %s", n, got)
	}
	if !strings.HasPrefix(got, "Gateway to the tools of: postgres-42, calendar-03, ") || !strings.Contains(got, " more (upstream_servers lists them). Find them with retrieve_tools") {
		t.Errorf("instructions %q", got)
	}
}
