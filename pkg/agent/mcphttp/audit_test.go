package mcphttp_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A ledger keeps lines in memory. Tests set whether it is ready.
type ledger struct {
	mu    sync.Mutex
	lines []audit.Line
	full  error
}

func (k *ledger) Write(_ context.Context, l audit.Line) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lines = append(k.lines, l)
	return nil
}

func (k *ledger) Ready(context.Context) error { return k.full }

// take returns the lines since the last call of take.
func (k *ledger) take() []audit.Line {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := k.lines
	k.lines = nil
	return out
}

// auditedGateway returns a gateway with a tool for each decision about a call.
func auditedGateway(t *testing.T, config ...string) gated {
	t.Helper()
	g := gatewaytest.New(t)
	git := g.Serve("git", gatewaytest.Tool("git_status", "Show the state.", gatewaytest.ReadOnly), gatewaytest.Tool("git_push", "Push commits.", ""),
		gatewaytest.Tool("git_reset", "Reset commits.", ""), gatewaytest.Tool("git_clean", "Clean commits.", ""))
	git.Prompts = []string{`{"name":"greet","arguments":[{"name":"who"}]}`}
	git.Resources = []string{`{"uri":"file:///a.txt","name":"a"}`, `{"uri":"file:///shut.txt","name":"shut"}`}
	g.Serve("flaky", gatewaytest.Tool("wait", "Wait.", gatewaytest.ReadOnly)).Answer = func(gatewaytest.Sent) (json.RawMessage, error) {
		return nil, &outcome.CallError{Outcome: outcome.Outcome{ServerID: "flaky", Status: outcome.Transient, Reason: outcome.ReasonTimeout}, Delivered: true}
	}
	g.Configure(map[string]string{"git": `"approval":"off","disabled_tools":["git_clean"],"disabled_resources":["file:///shut.txt"]`, "flaky": `"approval":"off"`}, config...)
	g.Forbid(`@id("no-resets") @reason("ask first") forbid (principal, action, resource == Tool::"git:git_reset");`)
	g.Sync()
	return gated{g}
}

// toolCall returns the params of a tools/call.
func toolCall(name, arguments string) string { return `"name":"` + name + `","arguments":` + arguments }

// auditCases has a request and its audit line for each decision.
var auditCases = []struct {
	name, method, params string
	want                 audit.Line
}{
	{"search", "tools/call", toolCall("retrieve_tools", `{"query":"commits"}`),
		audit.Line{Tool: "retrieve_tools", Decision: audit.Allowed, Found: &audit.Matches{Callable: 2, Locked: map[string]int{"disabled_by_config": 1}}}},
	{"search with locked ones", "tools/call", toolCall("retrieve_tools", `{"query":"commits","include_disabled":true}`),
		audit.Line{Tool: "retrieve_tools", Decision: audit.Allowed, Found: &audit.Matches{Callable: 2, Locked: map[string]int{"disabled_by_config": 2}, Shown: []string{"git:git_clean", "git:git_reset"}}}},
	{"search without a query", "tools/call", toolCall("retrieve_tools", `{}`), audit.Line{Tool: "retrieve_tools", Decision: audit.Refused}},
	{"describe", "tools/call", toolCall("describe_tools", `{"names":["git:git_push"]}`), audit.Line{Tool: "describe_tools", Decision: audit.Allowed}},
	{"servers", "tools/call", toolCall("upstream_servers", `{}`), audit.Line{Tool: "upstream_servers", Decision: audit.Allowed}},
	{"one server that is not there", "tools/call", toolCall("upstream_servers", `{"operation":"get","name":"none"}`), audit.Line{Tool: "upstream_servers", Decision: audit.Scope}},
	{"call", "tools/call", toolCall("call_tool_read", `{"name":"git:git_status","args":{"b":2,"a":1}}`),
		audit.Line{Tool: "git:git_status", Decision: audit.Allowed, Outcome: "available", ArgsAsked: "43258cff783fe7036d8a43033f830adfc60ec037382473548ac742b888292777", ArgsSent: "43258cff783fe7036d8a43033f830adfc60ec037382473548ac742b888292777"}},
	{"the server fails", "tools/call", toolCall("call_tool_read", `{"name":"flaky:wait"}`), audit.Line{Tool: "flaky:wait", Decision: audit.Allowed, Outcome: "transient"}},
	{"locked by a rule of policy.cedar", "tools/call", toolCall("call_tool_destructive", `{"name":"git:git_reset"}`),
		audit.Line{Tool: "git:git_reset", Decision: audit.Locked, Status: "disabled_by_config", Rules: []string{"policy.cedar:1 no-resets"}}},
	{"locked by a list", "tools/call", toolCall("call_tool_destructive", `{"name":"git:git_clean"}`),
		audit.Line{Tool: "git:git_clean", Decision: audit.Locked, Status: "disabled_by_config", Rules: []string{"mcpServers.git.disabled_tools[0]"}}},
	{"wrong variant", "tools/call", toolCall("call_tool_read", `{"name":"git:git_push"}`), audit.Line{Tool: "git:git_push", Decision: audit.Tier}},
	{"no such tool", "tools/call", toolCall("call_tool_read", `{"name":"git:none"}`), audit.Line{Tool: "git:none", Decision: audit.Scope}},
	{"no such tool of the gateway", "tools/call", toolCall("none", `{}`), audit.Line{Tool: "none", Decision: audit.Scope}},
	{"faulty arguments", "tools/call", toolCall("call_tool_read", `{"name":7}`), audit.Line{Tool: "call_tool_read", Decision: audit.Refused}},
	{"read_resource", "tools/call", toolCall("read_resource", `{"server":"git","uri":"file:///a.txt"}`), audit.Line{Tool: "git:resource:file:///a.txt", Decision: audit.Allowed, Outcome: "available"}},
	{"prompt", "prompts/get", `"name":"git__greet","arguments":{"who":"kim"}`, audit.Line{Tool: "git:prompt:greet", Decision: audit.Allowed, Outcome: "available"}},
	{"no such prompt", "prompts/get", `"name":"git__none"`, audit.Line{Tool: "git__none", Decision: audit.Scope}},
	{"resource", "resources/read", `"uri":"file:///a.txt"`, audit.Line{Tool: "git:resource:file:///a.txt", Decision: audit.Allowed, Outcome: "available"}},
	{"locked resource", "resources/read", `"uri":"file:///shut.txt"`,
		audit.Line{Tool: "git:resource:file:///shut.txt", Decision: audit.Locked, Status: "disabled_by_config", Rules: []string{"mcpServers.git.disabled_resources[0]"}}},
	{"no such resource", "resources/read", `"uri":"file:///none"`, audit.Line{Tool: "file:///none", Decision: audit.Scope}},
	{"completion", "completion/complete", `"ref":{"type":"ref/prompt","name":"git__greet"},"argument":{"name":"who","value":"k"}`,
		audit.Line{Tool: "git:prompt:greet", Decision: audit.Allowed, Outcome: "available"}},
}

func TestAudit(t *testing.T) {
	g, book := auditedGateway(t), &ledger{}
	h := newHandler(t, g, &mcphttp.Options{Audit: book})
	hashes := cmpopts.IgnoreFields(audit.Line{}, "V", "Time", "Kind", "Agent", "Method", "Path", "Source", "Ms", "Delivered", "ResultBytes", "Definition")
	for _, c := range auditCases {
		t.Run(c.name, func(t *testing.T) {
			send(h, legacy.request(t, c.method, c.params))
			lines := book.take()
			if len(lines) != 1 {
				t.Fatalf("%d lines: %+v", len(lines), lines)
			}
			got := lines[0]
			if c.want.ArgsAsked == "" {
				got.ArgsAsked, got.ArgsSent = "", ""
			}
			if d := cmp.Diff(c.want, got, hashes); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if got.V != 1 || got.Kind != audit.KindCall || got.Agent != "anonymous" || got.Method != c.method || got.Path != "/mcp" || got.Source != "192.0.2.1" || !got.Delivered {
				t.Errorf("%+v", got)
			}
			if item := strings.Contains(got.Tool, ":") && got.Decision != audit.Scope; (got.Definition != "") != item || (got.ResultBytes > 0) == (got.Method != "tools/call" && got.Decision != audit.Allowed) && got.Tool != "none" {
				t.Errorf("definition = %q, result bytes = %d", got.Definition, got.ResultBytes)
			}
		})
	}
	for name, r := range map[string]*http.Request{
		"list":    legacy.request(t, "tools/list", ``),
		"ping":    legacy.request(t, "ping", ``),
		"no JSON": post(t, `{`),
		"note":    post(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`),
	} {
		t.Run(name+" is no call", func(t *testing.T) {
			if send(h, r); len(book.take()) > 0 {
				t.Error("the message has an audit line")
			}
		})
	}
}

// The golden file has a function's log line for each case, as the platform keeps it.
func TestAuditLog(t *testing.T) {
	var log local.Buffer
	h := newHandler(t, auditedGateway(t, `"audit":{"arguments":"redacted"}`), &mcphttp.Options{
		AuditLog: true, RequestID: func(context.Context) string { return "req-1" },
		Log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey && a.Value.Kind() != slog.KindTime {
				return a // the audit's members
			}
			return lambdacontext.ReplaceAttr(groups, a)
		}})),
	})
	for _, c := range auditCases {
		r := modern.request(t, c.method, c.params)
		var p struct{ Name, URI string }
		require.OK(t, json.Unmarshal([]byte("{"+c.params+"}"), &p))
		if p.Name+p.URI != "" {
			r.Header.Set("Mcp-Name", p.Name+p.URI)
		}
		r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		send(h, r)
	}
	lines := log.String()
	for pattern, fixed := range map[string]string{
		`"time(stamp)?":"[^"]*"`: `"time$1":"2026-11-20T12:00:00Z"`, `"took":\d+`: `"took":12345678`, `"ms":[0-9.]+`: `"ms":12.345`,
	} {
		lines = regexp.MustCompile(pattern).ReplaceAllString(lines, fixed)
	}
	golden.Check(t, filepath.Join("testdata", "audit.jsonl"), lines)
	n := 0
	for line := range strings.Lines(lines) {
		names, err := rawjson.Split([]byte(line), rawjson.Strict) // no duplicate name
		require.OK(t, err)
		if n++; string(names.Get("audit")) != "1" || string(names.Get("level")) != `"INFO"` || len(line) > 4<<10 {
			t.Errorf("%s", line)
		}
	}
	if n != len(auditCases) {
		t.Errorf("got %d lines, want %d", n, len(auditCases))
	}
}
