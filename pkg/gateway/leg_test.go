package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

func TestAListSaysHowLongItMayBeKept(t *testing.T) {
	for mode, want := range map[string]string{"search": `"ttlMs":300000`, "direct": `"ttlMs":30000`} {
		gw := newFixture(t)
		gw.Serve("a", def("read", "Read.", ""))
		gw.Configure(map[string]string{"a": `"approval":"off"`}, `"gateway":{"mode":"`+mode+`"}`)
		gw.Sync()
		list, err := gw.Open().ListTools(t.Context(), "")
		if err != nil || strings.Count(string(list), "ttlMs") != 1 || !strings.Contains(string(list), want) {
			t.Errorf("%s: %s, %v; want %s", mode, list, err, want)
		}
	}
}

func TestOnlyDirectModeListsOutputSchemas(t *testing.T) {
	for mode, want := range map[string]bool{"search": false, "direct": true} {
		gw := newFixture(t)
		gw.Serve("a", def("typed", "Typed.", `"inputSchema":{"type":"object"},"outputSchema":{"type":"object"}`), def("plain", "Plain.", ""))
		gw.Configure(map[string]string{"a": `"approval":"off"`}, `"gateway":{"mode":"`+mode+`"}`)
		gw.Sync()
		s := gw.Open()
		for name, declared := range map[string]bool{"a__typed": want, "a__plain": false, "a__none": false, "call_tool_read": false} {
			if got := s.DeclaresOutput(name); got != declared {
				t.Errorf("%s mode: DeclaresOutput(%s) = %v", mode, name, got)
			}
		}
	}
}

// Whoever goes away in the middle of a call has not found a fault of the gateway's or the server's.
func TestACallerWhoGoesAwayLeavesNoWarning(t *testing.T) {
	const call = `{"name":"call_tool_read","arguments":{"name":"docs:read_document"}}`
	for name, prepare := range map[string]func(gw *fixture, leave func()){
		"while the server works": func(gw *fixture, leave func()) {
			gw.ByName["docs"].Answer = func(gatewaytest.Sent) (json.RawMessage, error) {
				leave()
				return nil, &outcome.CallError{Outcome: outcome.Outcome{ServerID: "docs", Reason: outcome.ReasonAborted}}
			}
		},
		"while the record is read": func(gw *fixture, leave func()) {
			gw.Approvals.OnGet = func(ctx context.Context, _ tool.ID) error { leave(); return ctx.Err() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			gw := everyStatus(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			prepare(gw, cancel)
			gw.Log.Reset()
			_, err := gw.Open().CallTool(ctx, parse(t, call))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("CallTool = %v, want canceled", err)
			}
			if gw.Log.String() != "" {
				t.Errorf("the log has %s", gw.Log)
			}
		})
	}
}

// A load balancer may have routed the call by its headers: they must not say anything else than
// what the tool is given.
func TestHeadersThatRepeatArgumentsMustAgreeWithThem(t *testing.T) {
	const schema = `"inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"}}}`
	for _, tt := range []struct {
		name, args string
		header     http.Header
		refused    string // what the message names; "": it is called
	}{
		{"agrees", `{"region":"eu","n":42}`, http.Header{"Mcp-Param-Region": {"eu"}, "Mcp-Param-N": {"42.0"}}, ""},
		{"encoded", `{"region":"Köln"}`, http.Header{"Mcp-Param-Region": {"=?base64?S8O2bG4=?="}}, ""},
		{"neither", `{}`, nil, ""},
		{"null", `{"region":null}`, nil, ""},
		{"another tool's", `{"region":"eu"}`, http.Header{"Mcp-Param-Region": {"eu"}, "Mcp-Param-Other": {"x"}}, ""},
		{"twice the same", `{"region":"eu"}`, http.Header{"Mcp-Param-Region": {"eu", "eu"}}, ""},
		{"says something else", `{"region":"us"}`, http.Header{"Mcp-Param-Region": {"eu"}}, "Mcp-Param-Region"},
		{"twice, once something else", `{"region":"eu"}`, http.Header{"Mcp-Param-Region": {"eu", "us"}}, "Mcp-Param-Region"},
		{"missing", `{"region":"eu","n":1}`, http.Header{"Mcp-Param-Region": {"eu"}}, "Mcp-Param-N"},
		{"without its argument", `{}`, http.Header{"Mcp-Param-Region": {"eu"}}, "Mcp-Param-Region"},
		{"with null as its argument", `{"region":null}`, http.Header{"Mcp-Param-Region": {"null"}}, "Mcp-Param-Region"},
		{"badly encoded", `{"region":"Hello"}`, http.Header{"Mcp-Param-Region": {"=?base64?SGVsbG8?="}}, "Mcp-Param-Region"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gw := newFixture(t)
			gw.Serve("a", def("run", "Run.", schema))
			gw.Configure(map[string]string{"a": `"approval":"off"`}, directMode)
			gw.Sync()
			call := func(modern bool) error {
				s, err := gw.MCP.Open(t.Context(), gateway.Caller{Agent: gw.Agent, Header: tt.header, Modern: modern})
				if err != nil {
					t.Fatal(err)
				}
				_, err = s.CallTool(t.Context(), parse(t, `{"name":"a__run","arguments":`+tt.args+`}`))
				return err
			}
			err := call(true)
			if called := len(gw.Sent()) > 0; called != (tt.refused == "") {
				t.Errorf("called: %v, %v", called, err)
			}
			e, ok := errors.AsType[*mcp.Error](err)
			if ok != (tt.refused != "") || ok && (e.Code != -32020 || e.Status != 400 || !strings.Contains(e.Message, tt.refused)) {
				t.Errorf("CallTool = %+v, want a mismatch of %q", err, tt.refused)
			}
			if err := call(false); err != nil {
				t.Errorf("in the handshake era: %v", err)
			}
		})
	}
}

func TestSearchModeHasNoHeadersToAgree(t *testing.T) {
	gw := newFixture(t)
	gw.Serve("a", def("run", "Run.", `"inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`))
	gw.Configure(map[string]string{"a": `"approval":"off"`})
	gw.Sync()
	s, err := gw.MCP.Open(t.Context(), gateway.Caller{Agent: gw.Agent, Modern: true, Header: http.Header{"Mcp-Param-Region": {"us"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CallTool(t.Context(), parse(t, `{"name":"call_tool_destructive","arguments":{"name":"a:run","args":{"region":"eu"}}}`)); err != nil || len(gw.Sent()) != 1 {
		t.Errorf("CallTool = %v", err)
	}
}
