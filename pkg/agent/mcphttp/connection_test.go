package mcphttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// The type of a result and the server info belong to one connection. Even so, an upstream of one
// protocol may send members that only the other protocol has.
func TestServerInfoAndResultType(t *testing.T) {
	const ours = `"io.modelcontextprotocol/serverInfo":{"name":"gate","version":"1.2.3"}`
	const theirs = `"io.modelcontextprotocol/serverInfo":{"name":"other","version":"0"}`
	o := &mcphttp.Options{Name: "gate", Version: "1.2.3"}
	for _, tt := range []struct{ given, modern, legacy string }{
		{`{"content":[]}`,
			`{"content":[],"resultType":"complete","_meta":{` + ours + `}}`, `{"content":[]}`},
		{`{ "_meta" : {"a":1}, "content":[] }`,
			`{"content":[],"resultType":"complete","_meta":{"a":1,` + ours + `}}`, `{ "_meta" : {"a":1}, "content":[] }`},
		{`{"_meta":{` + theirs + `},"resultType":"complete","content":[]}`,
			`{"resultType":"complete","content":[],"_meta":{` + ours + `}}`, `{"content":[]}`},
		{`{"_meta":{"a":1.0,` + theirs + `},"content":[],"resultType":"complete","resultType":"complete"}`,
			`{"content":[],"resultType":"complete","_meta":{"a":1.0,` + ours + `}}`, `{"content":[],"_meta":{"a":1.0}}`},
	} {
		h := newHandler(t, &backend{call: answers(tt.given)}, o)
		same(
			t, tt.given+" to a modern client", tt.modern,
			send(h, modern.request(t, "tools/call", `"name":"x"`)).wantResult(t),
		)
		same(
			t, tt.given+" to a legacy client", tt.legacy,
			send(h, legacy.request(t, "tools/call", `"name":"x"`)).wantResult(t),
		)
	}
}

func TestUnknownResultType(t *testing.T) {
	inEachProtocol(t, func(t *testing.T, e protocol) {
		for _, kind := range []string{`"task"`, `5`, `null`, `"INPUT_REQUIRED"`} {
			h := newHandler(t, &backend{call: answers(`{"resultType":` + kind + `,"content":[{"type":"text","text":"half"}]}`)}, nil)
			got := send(h, e.request(t, "tools/call", `"name":"x"`)).wantResult(t)
			if !strings.Contains(got, `"isError":true`) || !strings.Contains(got, "may have taken effect") || strings.Contains(got, "half") {
				t.Errorf("%s became %s", kind, got)
			}
		}
	})
}

// declaring returns a tool call of a stateless client with capabilities.
func declaring(t *testing.T, capabilities string) *http.Request {
	t.Helper()
	e := modern
	e.meta = strings.Replace(e.meta, `clientCapabilities":{}`, `clientCapabilities":`+capabilities, 1)
	return e.request(t, "tools/call", `"name":"t"`)
}

func TestInputRequired(t *testing.T) {
	const (
		form  = `{"method":"elicitation/create","params":{"x":9007199254740993}}`
		url   = `{"method":"elicitation/create","params":{"mode":"url"}}`
		think = `{"method":"sampling/createMessage","params":{}}`
		tools = `{"method":"sampling/createMessage","params":{"tools":[]}}`
		roots = `{"method":"roots/list"}`
	)
	for _, tt := range []struct{ name, asks, declared, missing string }{
		{"form", form, `{"elicitation":{}}`, ``},
		{"form, nothing declared", form, `{}`, `{"elicitation":{}}`},
		{"form, url declared", form, `{"elicitation":{"url":{}}}`, `{"elicitation":{}}`},
		{"url", url, `{"elicitation":{"url":{}}}`, ``},
		{"url, form declared", url, `{"elicitation":{}}`, `{"elicitation":{"url":{}}}`},
		{"sampling with tools", tools, `{"sampling":{"tools":{}}}`, ``},
		{"sampling with tools, without declared", tools, `{"sampling":{}}`, `{"sampling":{"tools":{}}}`},
		{"roots", roots, `{"roots":{}}`, ``},
		{"all", form + `,"b":` + tools + `,"c":` + roots, `{}`, `{"elicitation":{},"roots":{},"sampling":{"tools":{}}}`},
		{"unknown method", `{"method":"desires/read"}`, `{"elicitation":{},"sampling":{},"roots":{}}`, `{"desires/read":{}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asks := `{"resultType":"input_required","inputRequests":{"a":` + tt.asks + `},"requestState":"s"}`
			h := newHandler(t, &backend{call: answers(asks)}, nil)
			got := send(h, declaring(t, tt.declared))
			if tt.missing == "" {
				if r := got.wantResult(t); !strings.HasPrefix(r, strings.TrimSuffix(asks, "}")+",") {
					t.Errorf("it became %s", r)
				}
				return
			}
			got.wantError(t, 400, -32021, "7")
			same(
				t, "data", `{"requiredCapabilities":`+tt.missing+`}`, string(got.rpc(t).Error.Data),
			)
		})
	}
	again := `{"resultType":"input_required","requestState":"s"}` // it only requests another call
	send(newHandler(t, &backend{call: answers(again)}, nil), declaring(t, `{}`)).wantResult(t)

	// A handshake client would read it as an empty success.
	old := send(newHandler(t, &backend{call: answers(`{"resultType":"input_required","inputRequests":{"a":` + form + `}}`)}, nil), legacy.request(t, "tools/call", `"name":"t"`)).wantResult(t)
	if !strings.Contains(old, `"isError":true`) || strings.Contains(old, "input_required") {
		t.Errorf("got %s", old)
	}
}

func TestClientGone(t *testing.T) {
	inEachProtocol(t, func(t *testing.T, e protocol) {
		var log logbook
		ctx, cancel := context.WithCancel(t.Context())
		b := &backend{call: func(ctx context.Context, _ mcp.Request) (json.RawMessage, error) {
			cancel()
			if e.isModern() {
				<-ctx.Done()
			}
			return nil, context.Canceled
		}}
		h := newHandler(t, b, &mcphttp.Options{
			Log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), Metrics: observe.NewMeter("portcullis", "mcp", nil),
		})
		send(h, e.request(t, "tools/call", `"name":"x"`).WithContext(ctx))
		lines := slices.Collect(strings.Lines(log.String()))
		ours := slices.DeleteFunc(lines, func(l string) bool { return !strings.Contains(l, "mcp request") })
		if len(ours) != 1 || !strings.Contains(ours[0], `"level":"DEBUG"`) || strings.Contains(log.String(), "ERROR") {
			t.Errorf("the log has %s", log.String())
		}
		if strings.Count(log.String(), `"Errors":0`) != 1 {
			t.Errorf("the log does not count the request once: %s", log.String())
		}
	})
}

// A failure counts even if the client has disconnected during the call.
func TestClientGoneFailure(t *testing.T) {
	var log logbook
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := newHandler(t, &backend{openErr: errors.New("boom")}, &mcphttp.Options{Log: log.logger()})
	send(h, modern.request(t, "tools/call", `"name":"x"`).WithContext(ctx))
	if l := log.String(); !strings.Contains(l, `"level":"ERROR"`) || !strings.Contains(l, "boom") {
		t.Errorf("the log has %s", l)
	}
}

// If a tool answers with JSON-RPC's "internal error", the gateway has not failed; an alarm counts
// the gateway's failures.
func TestToolError(t *testing.T) {
	for name, theirs := range map[string]bool{"of the tool": true, "of the gateway": false} {
		var log logbook
		fails := &mcp.Error{Code: -32603, Message: "row 7 is gone", Err: errors.New("boom")}
		if theirs {
			fails.Err = &outcome.RPCError{Code: -32603, Message: "row 7 is gone"}
		}
		b := &backend{call: func(context.Context, mcp.Request) (json.RawMessage, error) { return nil, fails }}
		h := newHandler(t, b, &mcphttp.Options{Log: log.logger(), Metrics: observe.NewMeter("portcullis", "mcp", nil)})
		send(h, modern.request(t, "tools/call", `"name":"x"`)).wantError(t, 200, -32603, "7")
		if failed := strings.Contains(log.String(), `"level":"ERROR"`); failed == theirs || strings.Contains(log.String(), `"Errors":0`) != theirs {
			t.Errorf("error %s: log = %s", name, log.String())
		}
	}
}

// A client that disconnects while it sends its request causes only a debug log line.
func TestClientGoneBeforeBody(t *testing.T) {
	for name, length := range map[string]int64{"of a known length": 1 << 20, "in chunks": -1} {
		var log logbook
		h := newHandler(t, &backend{}, &mcphttp.Options{Log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		r := post(t, "")
		r.Body, r.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader(`{"jsonrpc":`), iotest.ErrReader(io.ErrUnexpectedEOF))), length
		send(h, r).wantError(t, 400, -32700, "")
		if l := log.String(); strings.Count(l, "\n") != 1 || !strings.Contains(l, `"level":"DEBUG"`) || !strings.Contains(l, "the client is gone") {
			t.Errorf("%s: the log has %s", name, l)
		}
	}
}
