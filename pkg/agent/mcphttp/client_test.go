package mcphttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// known answers the calls of two tools and refuses others.
func known(_ context.Context, p mcp.Request) (json.RawMessage, error) {
	switch p.Name {
	case "echo":
		text, err := json.Marshal(string(p.Arguments))
		return json.RawMessage(`{"content":[{"type":"text","text":` + string(text) + `}],"structuredContent":` + string(p.Arguments) + `}`), err
	case "fail":
		return json.RawMessage(`{"content":[{"type":"text","text":"Tool is disabled and not callable."}],"isError":true,"structuredContent":{}}`), nil
	}
	return nil, &mcp.Error{Code: -32602, Message: fmt.Sprintf("unknown tool %q", p.Name)}
}

// connect opens a session of the official Go client.
func connect(t *testing.T, url, version string) *sdk.ClientSession {
	t.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: "t", Version: "1"}, nil)
	s, err := c.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url + "/mcp"}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	require.OK(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestGoClient(t *testing.T) {
	srv := httptest.NewServer(newHandler(t, &backend{call: known, instructions: "Look behind the gate."}, nil))
	defer srv.Close()
	for _, v := range []struct{ asked, spoken string }{
		{"2025-03-26", "2025-11-25"}, {"2025-06-18", "2025-06-18"}, {"2025-11-25", "2025-11-25"}, {"2026-07-28", "2026-07-28"},
	} {
		t.Run(v.asked, func(t *testing.T) {
			s := connect(t, srv.URL, v.asked)
			if got := s.InitializeResult(); got.ProtocolVersion != v.spoken || got.Instructions != "Look behind the gate." {
				t.Errorf("negotiated %+v", got)
			}
			list, err := s.ListTools(t.Context(), nil)
			if err != nil || len(list.Tools) != 2 || list.CacheScope != "private" {
				t.Fatalf("list: %+v, %v", list, err)
			}
			call, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "echo", Arguments: json.RawMessage(`{"n":1}`)})
			if err != nil || call.IsError {
				t.Fatalf("call: %+v, %v", call, err)
			}
			if d := cmp.Diff(`{"n":1}`, call.Content[0].(*sdk.TextContent).Text); d != "" {
				t.Errorf("call (-want +got):\n%s", d)
			}
			blocked, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "fail"})
			if err != nil || !blocked.IsError {
				t.Errorf("blocked: %+v, %v", blocked, err)
			}
			_, err = s.CallTool(t.Context(), &sdk.CallToolParams{Name: "none"})
			if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != -32602 || e.Message != `unknown tool "none"` {
				t.Errorf("unknown: %v", err)
			}
			_, err = s.ListPrompts(t.Context(), nil)
			if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != -32601 {
				t.Errorf("prompts: %v", err)
			}
			// An error ends no session.
			if _, err := s.ListTools(t.Context(), nil); err != nil {
				t.Errorf("list after errors: %v", err)
			}
		})
	}
}

func TestConcurrentCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it fails if a goroutine is left
		h := newHandler(t, &backend{}, nil)
		for i := range 64 {
			go func() {
				e := protocols[i%len(protocols)]
				got := send(h, e.request(t, "tools/call", fmt.Sprintf(`"name":"echo","arguments":{"i":%d}`, i)))
				if !strings.Contains(got.body, fmt.Sprintf(`"arguments":{"i":%d}`, i)) {
					t.Errorf("call %d got the answer %s", i, got.body)
				}
			}()
		}
	})
}
