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

	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A ledger keeps lines in memory. If a test sets full, the ledger is not ready.
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

// auditCases has a request for each decision. The golden file has the audit lines of the requests.
var auditCases = []struct{ name, method, params string }{
	{"search", "tools/call", toolCall("retrieve_tools", `{"query":"commits"}`)},
	{"search with locked ones", "tools/call",
		toolCall("retrieve_tools", `{"query":"commits","include_disabled":true}`)},
	{"search without a query", "tools/call", toolCall("retrieve_tools", `{}`)},
	{"describe", "tools/call", toolCall("describe_tools", `{"names":["git:git_push"]}`)},
	{"servers", "tools/call", toolCall("upstream_servers", `{}`)},
	{"one server that is not there", "tools/call",
		toolCall("upstream_servers", `{"operation":"get","name":"none"}`)},
	{"call", "tools/call",
		toolCall("call_tool_read", `{"name":"git:git_status","args":{"b":2,"a":1}}`)},
	{"the server fails", "tools/call", toolCall("call_tool_read", `{"name":"flaky:wait"}`)},
	{"locked by a rule of policy.cedar", "tools/call",
		toolCall("call_tool_destructive", `{"name":"git:git_reset"}`)},
	{"locked by a list", "tools/call",
		toolCall("call_tool_destructive", `{"name":"git:git_clean"}`)},
	{"wrong variant", "tools/call", toolCall("call_tool_read", `{"name":"git:git_push"}`)},
	{"no such tool", "tools/call", toolCall("call_tool_read", `{"name":"git:none"}`)},
	{"no such tool of the gateway", "tools/call", toolCall("none", `{}`)},
	{"faulty arguments", "tools/call", toolCall("call_tool_read", `{"name":7}`)},
	{"read_resource", "tools/call",
		toolCall("read_resource", `{"server":"git","uri":"file:///a.txt"}`)},
	{"prompt", "prompts/get", `"name":"git__greet","arguments":{"who":"kim"}`},
	{"no such prompt", "prompts/get", `"name":"git__none"`},
	{"resource", "resources/read", `"uri":"file:///a.txt"`},
	{"locked resource", "resources/read", `"uri":"file:///shut.txt"`},
	{"no such resource", "resources/read", `"uri":"file:///none"`},
	{"completion", "completion/complete",
		`"ref":{"type":"ref/prompt","name":"git__greet"},"argument":{"name":"who","value":"k"}`},
}

// For each case, the golden file has the log line that a Lambda function writes. A message that is
// not a call has no audit line.
func TestAudit(t *testing.T) {
	var log local.Buffer
	book := &ledger{}
	h := newHandler(t, auditedGateway(t, `"audit":{"arguments":"redacted"}`), &mcphttp.Options{
		Audit: book, AuditLog: true, RequestID: func(context.Context) string { return "req-1" },
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
		if send(h, r); book.one(t).Agent != "anonymous" {
			t.Errorf("%s: the line names no agent", c.name)
		}
	}
	lines := log.String()
	for _, r := range []*http.Request{
		legacy.request(t, "tools/list", ``), legacy.request(t, "ping", ``), post(t, `{`),
		post(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`),
	} {
		if send(h, r); len(book.take()) > 0 {
			t.Error("a message that is no call has an audit line")
		}
	}
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
			t.Errorf("the line has not audit 1 and level INFO, or is longer than 4 KiB: %s", line)
		}
	}
	if n != len(auditCases) {
		t.Errorf("got %d lines, want %d", n, len(auditCases))
	}
}
