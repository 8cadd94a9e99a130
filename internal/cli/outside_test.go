package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/testclients"
)

// callOf returns a step that calls one of the gateway's tools.
func callOf(tool, args string) testclients.Step {
	return testclients.Step{Method: "tools/call", Params: json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, args))}
}

// textOf returns the only text block of a result.
func textOf(t *testing.T, result json.RawMessage) string {
	t.Helper()
	return agenttest.ReadResult(t, result).Text
}

// attempts are the actions of a new user, each with a required part of its answer.
var attempts = []struct {
	name  string
	step  testclients.Step
	holds []string
	not   []string
}{
	{"search", callOf("retrieve_tools", `{"query":"search notes"}`), []string{`"tools":[{"name":"notes:search_notes"`, `"call_with":"call_tool_read"`}, []string{"disabled", "remediation"}},
	{"search with locked", callOf("retrieve_tools", `{"query":"delete a note","include_disabled":true}`),
		[]string{`"disabled":[{"name":"notes:delete_note"`, `"status":"disabled_by_config"`, `"remediation":{"disabled_by_config":`}, nil},
	{"blocked call", callOf("call_tool_destructive", `{"name":"notes:delete_note","args":{"id":1}}`), []string{"disabled_by_config", "Notes are records"}, []string{"ask the user"}},
	{"changed since approval", callOf("call_tool_write", `{"name":"tickets:assign_ticket","args":{"id":1,"assignee":"a"}}`),
		[]string{"Tool is disabled and not callable.", "pending_approval", "/admin/tools/tickets/assign_ticket"}, []string{"e-mail"}},
	{"servers", callOf("upstream_servers", `{"operation":"list"}`), []string{`"name":"notes","enabled":true,"status":"available"`, `"tools":{"callable":2,"disabled_by_user":1,"pending_approval":1}`}, nil},
	{"one server", callOf("upstream_servers", `{"operation":"get","name":"notes"}`), []string{`"total":1`, `"disabled_by_config":1`}, []string{"tickets"}},
	{"call", callOf("call_tool_read", `{"name":"notes:get_note","args":{"id":1}}`), []string{"sunrise"}, nil},
}

func TestTypeScriptDemo(t *testing.T) {
	p := start(t, t.TempDir(), "--demo")
	var steps []testclients.Step
	for _, d := range attempts {
		steps = append(steps, d.step)
	}
	for _, mode := range []string{testclients.SDK, testclients.Legacy, testclients.Auto} {
		t.Run(mode, func(t *testing.T) {
			got := testclients.TypeScript(t, mode, p.URL+"/mcp", nil, steps...)
			if !strings.Contains(got.Instructions, "notes, tickets") {
				t.Errorf("instructions = %q", got.Instructions)
			}
			for i, d := range attempts {
				checkEvent(t, d.name, textOf(t, got.Answers[i].Result), d.holds, d.not)
			}
		})
	}
}

func TestInspectorDemo(t *testing.T) {
	p := start(t, t.TempDir(), "--demo")
	for _, protocol := range []string{"legacy", "auto"} {
		for _, d := range attempts {
			t.Run(protocol+" "+d.name, func(t *testing.T) {
				call := require.JSON[struct {
					Name      string
					Arguments json.RawMessage
				}](t, d.step.Params)
				// The Inspector fails after a result with isError; only its output matters.
				out, err := testclients.Inspector(t, p.URL+"/mcp", protocol, "--method", "tools/call", "--tool-name", call.Name, "--tool-args-json", string(call.Arguments))
				if len(out) == 0 {
					t.Fatal(err)
				}
				checkEvent(t, d.name, textOf(t, out), d.holds, d.not)
			})
		}
	}
}

func checkEvent(t *testing.T, name, text string, holds, not []string) {
	t.Helper()
	for _, want := range holds {
		if !strings.Contains(text, want) {
			t.Errorf("%s: %q is not in %s", name, want, text)
		}
	}
	for _, bad := range not {
		if strings.Contains(text, bad) {
			t.Errorf("%s: %q is in %s", name, bad, text)
		}
	}
}

// The upstream server is the reference server of the protocol's authors. The config denies one of
// its tools, and a person has disabled another tool.
func TestServerEverything(t *testing.T) {
	url := testclients.ServerEverything(t)
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, fmt.Sprintf(`{"mcpServers": {"everything": {"url": %q, "disabled_tools": ["get-env"]}}}`, url))
	p := start(t, dir)
	p.Ask(http.StatusOK, "/admin/tools/everything/get-sum/disable", map[string]any{"note": "not today"}, nil)

	found := p.Call("retrieve_tools", map[string]any{"query": "environment variables", "include_disabled": true, "limit": 50})
	checkEvent(t, "search", found.Text, []string{`"name":"everything:get-env"`, `"status":"disabled_by_config"`}, nil)
	found = p.Call("retrieve_tools", map[string]any{"query": "sum of two numbers", "include_disabled": true, "limit": 50})
	checkEvent(t, "search", found.Text, []string{`"name":"everything:get-sum"`, `"status":"disabled_by_user"`}, nil)
	for tool, status := range map[string]string{"get-env": "disabled_by_config", "get-sum": "disabled_by_user"} {
		for _, variant := range []string{"call_tool_read", "call_tool_write", "call_tool_destructive"} {
			blocked := p.Call(variant, map[string]any{"name": "everything:" + tool, "args": map[string]any{"a": 1, "b": 2}})
			if !blocked.IsError || !strings.Contains(blocked.Text, status) {
				t.Errorf("%s of %s answers %s", variant, tool, blocked.Raw)
			}
		}
	}
	checkEvent(t, "servers", p.Call("upstream_servers", map[string]any{"operation": "get", "name": "everything"}).Text,
		[]string{`"disabled_by_config":1,"disabled_by_user":1`}, nil)

	var described struct {
		Tools []struct {
			CallWith string `json:"call_with"`
		}
	}
	if p.CallJSON("describe_tools", map[string]any{"names": []string{"everything:echo"}}, &described); len(described.Tools) != 1 {
		t.Fatalf("describe: %+v", described)
	}
	echoed := p.Call(described.Tools[0].CallWith, map[string]any{"name": "everything:echo", "args": map[string]any{"message": "through the gate"}})
	if echoed.IsError || !strings.Contains(echoed.Text, "through the gate") {
		t.Errorf("echo answers %s", echoed.Raw)
	}
}

// A direct call returns the server's content byte for byte, even content that typed clients would
// lose.
func TestBytesArriveUnchanged(t *testing.T) {
	w := newReal(t, `, "approval": "off"`)
	const args = `{"n":9007199254740993,"z":1,"a":{"unknown":[1.0,2e3]}}`
	x := w.tools()[0]
	for _, variant := range []string{"call_tool_destructive"} {
		raw := w.RPC("tools/call", json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":{"name":%q,"args":%s}}`, variant, x.ID, args)))
		if !bytes.Contains(raw, []byte(strings.ReplaceAll(args, `"`, `\"`))) && !bytes.Contains(raw, []byte(args)) {
			t.Errorf("%s answers %s", variant, raw)
		}
	}
}
