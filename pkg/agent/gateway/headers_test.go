package gateway_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A load balancer may have routed the call by its headers, so the headers must agree with the
// tool's arguments.
func TestCallHeaders(t *testing.T) {
	const schema = `"inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"}}}`
	for _, tt := range []struct {
		name, args string
		header     http.Header
		refused    string // part of the message; "": the tool is called
	}{
		{"headers agree", `{"region":"eu","n":42}`, http.Header{"Mcp-Param-Region": {"eu"}, "Mcp-Param-N": {"42.0"}}, ""},
		{"no argument and no header", `{}`, nil, ""},
		{"null without a header", `{"region":null}`, nil, ""},
		{"header of another tool", `{"region":"eu"}`, http.Header{"Mcp-Param-Region": {"eu"}, "Mcp-Param-Other": {"x"}}, ""},
		{"header with another value", `{"region":"us"}`, http.Header{"Mcp-Param-Region": {"eu"}}, "Mcp-Param-Region"},
		{"header twice, one with another value", `{"region":"eu"}`, http.Header{"Mcp-Param-Region": {"eu", "us"}}, "Mcp-Param-Region"},
		{"header missing", `{"region":"eu","n":1}`, http.Header{"Mcp-Param-Region": {"eu"}}, "Mcp-Param-N"},
		{"header without its argument", `{}`, http.Header{"Mcp-Param-Region": {"eu"}}, "Mcp-Param-Region"},
		{"header badly encoded", `{"region":"Hello"}`, http.Header{"Mcp-Param-Region": {"=?base64?SGVsbG8?="}}, "Mcp-Param-Region"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gw := serving(t, "", directMode, def("run", "Run.", schema))
			call := func(modern bool) error {
				s, err := gw.MCP.Open(t.Context(), gateway.Caller{Agent: gw.Agent, Header: tt.header, Modern: modern})
				require.OK(t, err)
				_, err = s.CallTool(t.Context(), parse(t, `{"name":"s__run","arguments":`+tt.args+`}`), mcp.Client{})
				return err
			}
			err := call(true)
			if called := len(gw.Sent()) > 0; called != (tt.refused == "") {
				t.Errorf("called = %v, error %v", called, err)
			}
			e, ok := errors.AsType[*mcp.Error](err)
			if ok != (tt.refused != "") || ok && (e.Code != -32020 || e.Status != 400 || !strings.Contains(e.Message, tt.refused)) {
				t.Errorf("CallTool = %+v, want a mismatch of %q", err, tt.refused)
			}
			if err := call(false); err != nil {
				t.Errorf("in the handshake protocol: %v", err)
			}
		})
	}
}

// In search mode, the gateway does not check these headers, because the client calls the gateway's
// own tools, and their arguments have no headers.
func TestCallHeadersSearchMode(t *testing.T) {
	gw := serving(t, "", "", def("run", "Run.", `"inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`))
	gw.Modern, gw.Header = true, http.Header{"Mcp-Param-Region": {"us"}}
	if r := gw.Call("call_tool_destructive", `{"name":"s:run","args":{"region":"eu"}}`); r.IsError {
		t.Error(r.Text)
	}
}
