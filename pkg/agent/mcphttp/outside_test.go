package mcphttp_test

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/testclients"
)

func TestTypeScriptClientsWork(t *testing.T) {
	srv := httptest.NewServer(newHandler(t, &backend{call: known, instructions: "Look behind the gate."}, &mcphttp.Options{Name: "gate", Version: "1.2.3"}))
	defer srv.Close()
	for mode, version := range map[string]string{testclients.SDK: "2025-11-25", testclients.Legacy: "2025-11-25", testclients.Auto: "2026-07-28"} {
		t.Run(mode, func(t *testing.T) {
			got := testclients.TypeScript(t, mode, srv.URL+"/mcp/x/files", map[string]string{"X-MCP-Readonly": "true"},
				testclients.Step{Method: "tools/list"},
				testclients.Step{Method: "tools/call", Params: json.RawMessage(`{"name":"echo","arguments":{"n":1}}`)},
				testclients.Step{Method: "tools/call", Params: json.RawMessage(`{"name":"fail"}`)},
				testclients.Step{Method: "tools/call", Params: json.RawMessage(`{"name":"nöne"}`)},
				testclients.Step{Method: "tools/list"},
			)
			if got.Version != version || got.Server.Name != "gate" || got.Server.Version != "1.2.3" || got.Instructions != "Look behind the gate." || string(got.Capabilities) != `{"tools":{}}` {
				t.Errorf("connected to %+v", got)
			}
			var list struct{ Tools []struct{ Name string } }
			for _, i := range []int{0, 4} {
				if err := json.Unmarshal(got.Answers[i].Result, &list); err != nil || len(list.Tools) != 2 || list.Tools[0].Name != "echo" {
					t.Errorf("answer %d is %s", i, got.Answers[i].Result)
				}
			}
			if r := string(got.Answers[1].Result); !strings.Contains(r, `"structuredContent":{"n":1}`) || !strings.Contains(r, `"text":"{\"n\":1}"`) {
				t.Errorf("the call answers %s", r)
			}
			if r := string(got.Answers[2].Result); !strings.Contains(r, `"isError":true`) || !strings.Contains(r, "disabled and not callable") {
				t.Errorf("the blocked call answers %s", r)
			}
			if e := got.Answers[3].Error; e == nil || e.Code != -32602.0 || !strings.Contains(e.Message, `unknown tool "nöne"`) {
				t.Errorf("the unknown tool answers %+v", got.Answers[3])
			}
		})
	}
}

func TestInspectorWorks(t *testing.T) {
	srv := httptest.NewServer(newHandler(t, &backend{call: known}, nil))
	defer srv.Close()
	for _, protocol := range []string{"legacy", "auto", "modern"} {
		t.Run(protocol, func(t *testing.T) {
			out, err := testclients.Inspector(t, srv.URL+"/mcp", protocol, "--method", "tools/list")
			require.OK(t, err)
			var list struct{ Tools []struct{ Name string } }
			if err := json.Unmarshal(out, &list); err != nil || len(list.Tools) != 2 {
				t.Errorf("tools/list prints %s, %v", out, err)
			}
			out, err = testclients.Inspector(t, srv.URL+"/mcp", protocol, "--method", "tools/call", "--tool-name", "echo", "--tool-args-json", `{"n":1}`)
			require.OK(t, err)
			var call struct{ StructuredContent json.RawMessage }
			if err := json.Unmarshal(out, &call); err != nil {
				t.Errorf("tools/call prints %s, %v", out, err)
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, call.StructuredContent); err != nil || compact.String() != `{"n":1}` {
				t.Errorf("tools/call prints %s, %v", out, err)
			}
		})
	}
}
