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
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
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
			same(t, "call", `{"n":1}`, call.Content[0].(*sdk.TextContent).Text)
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

// A gated is a gateway as the backend of a handler.
type gated struct{ *gatewaytest.Gateway }

func (g gated) Open(ctx context.Context, c gateway.Caller) (mcphttp.Session, error) {
	c.Agent = g.Agent
	s, err := g.MCP.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (g gated) Stopped(ctx context.Context, _ identity.Agent) error {
	return g.MCP.Stopped(ctx, g.Agent)
}

func (g gated) While(ctx context.Context, _ identity.Agent) (context.Context, func()) {
	return g.MCP.While(ctx, g.Agent)
}

// The official Go client uses the prompts and resources of a gateway.
func TestGoClientItems(t *testing.T) {
	gw := gatewaytest.New(t)
	up := gw.Serve("up")
	up.Prompts = []string{gatewaytest.Prompt("greet", ""), gatewaytest.Prompt("shout", "")}
	up.Resources = []string{
		gatewaytest.Resource("file:///a.txt?x=1#%C3%A9", ""),
		gatewaytest.Resource("db://{table}/{id}", ""),
	}
	gw.Configure(nil)
	gw.Sync()
	gw.Decide("up:prompt:shout", "disable")
	gw.Clock.Wait(time.Minute)
	srv := httptest.NewServer(newHandler(t, gated{gw}, nil))
	defer srv.Close()
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) { checkGoItems(t, connect(t, srv.URL, version)) })
	}
}

func checkGoItems(t *testing.T, s *sdk.ClientSession) {
	t.Helper()
	ctx := t.Context()
	c := s.InitializeResult().Capabilities
	if c.Prompts == nil || c.Resources == nil || c.Completions == nil || c.Resources.Subscribe {
		t.Errorf("declared %+v", c)
	}
	prompts, err := s.ListPrompts(ctx, nil)
	if err != nil || len(prompts.Prompts) != 1 || prompts.Prompts[0].Name != "up__greet" || prompts.CacheScope != "private" {
		t.Errorf("prompts: %+v, %v", prompts, err)
	}
	resources, err := s.ListResources(ctx, nil)
	if err != nil || len(resources.Resources) != 1 ||
		resources.Resources[0].URI != "file:///a.txt?x=1#%C3%A9" {
		t.Errorf("resources: %+v, %v", resources, err)
	}
	templates, err := s.ListResourceTemplates(ctx, nil)
	if err != nil || len(templates.ResourceTemplates) != 1 {
		t.Errorf("templates: %+v, %v", templates, err)
	}
	got, err := s.GetPrompt(ctx, &sdk.GetPromptParams{Name: "up__greet"})
	if err != nil || got.Messages[0].Content.(*sdk.TextContent).Text != "greet" {
		t.Errorf("prompt: %+v, %v", got, err)
	}
	read, err := s.ReadResource(ctx, &sdk.ReadResourceParams{URI: "db://t/7"})
	if err != nil || read.Contents[0].URI != "db://t/7" || read.CacheScope != "private" {
		t.Errorf("resource: %+v, %v", read, err)
	}
	ref := &sdk.CompleteReference{Type: "ref/prompt", Name: "up__greet"}
	about := sdk.CompleteParamsArgument{Name: "about", Value: "v"}
	done, err := s.Complete(ctx, &sdk.CompleteParams{Ref: ref, Argument: about})
	if err != nil || len(done.Completion.Values) != 1 {
		t.Errorf("completion: %+v, %v", done, err)
	}
	_, err = s.GetPrompt(ctx, &sdk.GetPromptParams{Name: "up__shout"})
	if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != 4030 ||
		!strings.Contains(e.Message, "Ask the user to re-enable it") {
		t.Errorf("a locked prompt: %v", err)
	}
}
