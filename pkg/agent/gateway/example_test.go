package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// A fixed is a loader that finds one tool on every server, and an upstream.
type fixed struct{ definition string }

func (f fixed) LoadEach(_ context.Context, targets []upstream.Target, each func(outcome.Outcome)) {
	for _, t := range targets {
		d, _ := tool.ParseItem(tool.Tool, []byte(f.definition))
		each(outcome.Outcome{ServerID: t.ID, Status: outcome.Available, Tools: []tool.Definition{d}})
	}
}

func (fixed) Keep([]upstream.Target) {}

func (fixed) Call(context.Context, upstream.Target, upstream.Call) (json.RawMessage, error) {
	return json.RawMessage(`{"content":[]}`), nil
}

func ExampleGateway() {
	ctx := context.Background()
	var objects objecttest.Mem
	var approvals approvaltest.Mem
	up := fixed{`{"name":"delete_file","description":"Delete a file.","inputSchema":{"type":"object","properties":{"path":{"type":"string"}}}}`}
	_, _ = objects.Put(ctx, config.Key, []byte(`{"mcpServers": {
		"files":  {"url": "https://files.example.com/mcp"},
		"backup": {"url": "https://backup.example.com/mcp", "disabled_tools": ["delete_*"]}
	}}`), "")
	if _, err := catalog.NewSyncer(&objects, &approvals, up, nil).Sync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	g := gateway.New(state.New(&objects, &approvals, nil), &approvals, up, nil)
	s, err := g.Open(ctx, gateway.Caller{Agent: identity.Agent{ID: "a", Servers: []string{"*"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, _ := mcp.Parse([]byte(`{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
		"name": "retrieve_tools", "arguments": {"query": "delete a file", "include_disabled": true}
	}}`))
	raw, _ := s.CallTool(ctx, r, mcp.Client{})
	var answer struct{ Content []struct{ Text string } }
	_ = json.Unmarshal(raw, &answer)
	fmt.Println(answer.Content[0].Text)
	// Output:
	// {"tools":[{"name":"files:delete_file","signature":"(path?:string)","description":"Delete a file.","call_with":"call_tool_destructive"}],"total":1,"disabled":[{"name":"backup:delete_file","description":"Delete a file.","status":"disabled_by_config"}],"remediation":{"disabled_by_config":"This tool is denied by operator policy, in mcp_config.json or policy.cedar. The user cannot override it; only the operator can change it."}}
}
