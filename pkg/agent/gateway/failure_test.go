package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

func TestCallRPCError(t *testing.T) {
	gw := everyStatus(t)
	gw.ByName["docs"].Answer = func(gatewaytest.Sent) (json.RawMessage, error) {
		return nil, &outcome.RPCError{Code: -32002, Message: "no such <document>", Data: json.RawMessage(`{"id":9007199254740993}`)}
	}
	_, err := gw.Try(`{"name":"call_tool_read","arguments":{"name":"docs:read_document"}}`)
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok || e.Code != -32002 || e.Message != "no such <document>" || string(e.Data) != `{"id":9007199254740993}` || e.Status != 0 {
		t.Errorf("got %+v", err)
	}
}

func TestCallFailed(t *testing.T) {
	gw := everyStatus(t)
	tests := []struct {
		failed outcome.CallError
		text   string
		meta   string
	}{
		{
			outcome.CallError{Outcome: outcome.Outcome{Status: outcome.Transient, Reason: "rate_limited", RetryAfter: 1500 * time.Millisecond}},
			"MCP server 'docs' takes no more calls for the moment. The call was not carried out and the gateway does not repeat it: call again in 2 s.",
			`{"server":"docs","status":"transient","reason":"rate_limited","retry_after":2}`,
		},
		{
			outcome.CallError{Outcome: outcome.Outcome{Status: outcome.Permanent, Reason: "tls", Error: "x509: secret.internal"}},
			"MCP server 'docs' is unavailable and needs attention: no trusted TLS connection to it is possible. Its tools will not work until it is fixed. The call was not carried out.",
			`{"server":"docs","status":"permanent","reason":"tls"}`,
		},
		{
			outcome.CallError{Outcome: outcome.Outcome{Status: outcome.Transient, Reason: "timeout", Duration: 20 * time.Second, RetryAfter: time.Second}, Delivered: true},
			"No answer after 20 s. The call was sent and may have taken effect; check before calling again.",
			`{"server":"docs","status":"transient","reason":"timeout","delivered":true}`,
		},
	}
	for _, tt := range tests {
		gw.ByName["docs"].Answer = func(gatewaytest.Sent) (json.RawMessage, error) { return nil, &tt.failed }
		r := gw.Call("call_tool_read", `{"name":"docs:read_document"}`)
		if !r.IsError || r.Text != tt.text || string(r.Meta["dev.portcullis/upstream"]) != tt.meta || strings.Contains(r.Raw, "secret.internal") {
			t.Errorf("%s", r.Raw)
		}
	}
}

func TestCallOutOfTime(t *testing.T) {
	gw := everyStatus(t)
	s := gw.Open()
	gw.Approvals.OnGet = func(ctx context.Context, _ tool.ID) error { <-ctx.Done(); return ctx.Err() }
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	raw, err := s.CallTool(ctx, parse(t, `{"name":"call_tool_read","arguments":{"name":"docs:read_document"}}`), mcp.Client{})
	if err != nil || !strings.Contains(string(raw), "Nothing was sent to a server: call again.") || len(gw.Sent()) != 0 {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestCallServerJustFailed(t *testing.T) {
	gw := everyStatus(t)
	for _, tt := range []struct {
		status outcome.Status
		for_   time.Duration
		text   string
	}{
		{outcome.Transient, 5 * time.Second, "The call was not carried out and the gateway does not repeat it: call again in 1 s."},
		{outcome.Permanent, time.Minute, "needs attention"},
		{outcome.Denied, 30 * time.Second, "was denied"},
	} {
		gw.ByName["docs"].Outcome = outcome.Outcome{Status: tt.status, Reason: "forbidden"}
		if _, err := gw.Syncer.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		gw.States.Refresh(t.Context())
		gw.Clock.Wait(tt.for_ - time.Second)
		if r := gw.Call("call_tool_read", `{"name":"docs:read_document"}`); !r.IsError || !strings.Contains(r.Text, tt.text) || len(gw.Sent()) != 0 {
			t.Errorf("%s, before the retry time: %s", tt.status, r.Raw)
		}
		if f := gw.search(`{"query":"read document"}`); f.Total == 0 {
			t.Errorf("%s: a search does not find the server's tools", tt.status)
		}
		gw.Clock.Wait(time.Second)
		if r := gw.Call("call_tool_read", `{"name":"docs:read_document"}`); r.IsError || len(gw.Sent()) != 1 {
			t.Errorf("%s, after the retry time: %s", tt.status, r.Raw)
		}
	}
}

// After the first request, each request makes only these reads. Each read on AWS costs money.
func TestStoreReads(t *testing.T) {
	gw := everyStatus(t)
	reads := 0
	gw.Objects.OnGet = func(context.Context, string) error { reads++; return nil }
	gw.Approvals.OnGet = func(context.Context, tool.ID) error { reads++; return nil }
	gw.Approvals.OnChanges = func(context.Context, time.Time) error { reads++; return nil }
	gw.search(`{"query":"document"}`)
	for _, tt := range []struct {
		what string
		wait time.Duration
		do   func()
		want int
	}{
		{"search within 2 s", time.Second, func() { gw.search(`{"query":"document"}`) }, 0},
		{"search", 3 * time.Second, func() { gw.search(`{"query":"document","include_disabled":true}`) }, 1},
		{"describe", 3 * time.Second, func() { gw.Call("describe_tools", `{"names":["docs:read_document","moved:convert_document"]}`) }, 1},
		{"servers", 3 * time.Second, func() { gw.Call("upstream_servers", `{}`) }, 1},
		{"call", 3 * time.Second, func() { gw.Call("call_tool_read", `{"name":"docs:read_document"}`) }, 2},
		{"call within 2 s", time.Second, func() { gw.Call("call_tool_read", `{"name":"docs:read_document"}`) }, 1},
		{"call of a denied tool", 3 * time.Second, func() { gw.Call("call_tool_read", `{"name":"denied:purge_documents"}`) }, 1},
	} {
		gw.Clock.Wait(tt.wait)
		reads = 0
		if tt.do(); reads != tt.want {
			t.Errorf("%s: %d reads, want %d", tt.what, reads, tt.want)
		}
	}
}

// If a caller goes away during a call, neither the gateway nor the server has failed.
func TestCallCanceled(t *testing.T) {
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
			_, err := gw.Open().CallTool(ctx, parse(t, call), mcp.Client{})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("CallTool = %v, want canceled", err)
			}
			if gw.Log.String() != "" {
				t.Errorf("the log has %s", gw.Log)
			}
		})
	}
}
