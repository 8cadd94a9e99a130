package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

type greeting struct {
	Name string `json:"name"`
}

// sdkServer is a server of the official SDK with one tool.
func sdkServer(o *mcp.StreamableHTTPOptions) http.Handler {
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "greet", Description: "Says hello."}, func(_ context.Context, _ *mcp.CallToolRequest, in greeting) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello " + in.Name}}}, nil, nil
	})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, o)
}

func TestOfficialServersAreLoadedAndCalled(t *testing.T) {
	for name, o := range map[string]*mcp.StreamableHTTPOptions{
		"stateless, JSON":         {Stateless: true, JSONResponse: true},
		"stateless, events":       {Stateless: true},
		"sessions, JSON":          {JSONResponse: true},
		"sessions, event streams": {},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(sdkServer(o))
			defer s.Close()
			c := quick(t, Options{})
			defer c.Close()
			target := Target{ID: "sdk", URL: s.URL}
			for range 2 {
				out := c.Load(t.Context(), target)
				if out.Status != outcome.Available || out.Attempts != 1 || len(out.Tools) != 1 || out.Tools[0].Name != "greet" {
					t.Fatalf("Load = %s %s (%s) after %d attempts, %d tools", out.Status, out.Reason, out.Error, out.Attempts, len(out.Tools))
				}
			}
			got, err := c.Call(t.Context(), target, Call{Name: "greet", Params: json.RawMessage(`{"arguments":{"name":"Ada"}}`)})
			if err != nil || !strings.Contains(string(got), "hello Ada") {
				t.Errorf("Call = %s, %v", got, err)
			}
			// Arguments of the wrong type are for the agent to mend, whichever way the server says so.
			got, err = c.Call(t.Context(), target, Call{Name: "greet", Params: json.RawMessage(`{"arguments":{"name":7}}`)})
			if rpc, ok := errors.AsType[*RPCError](err); !strings.Contains(string(got), `"isError":true`) && (!ok || rpc.Code != codeInvalidParams) {
				t.Errorf("Call with wrong arguments = %s, %v", got, err)
			}
			_, err = c.Call(t.Context(), target, Call{Name: "none"})
			if rpc, ok := errors.AsType[*RPCError](err); !ok || rpc.Code != codeInvalidParams {
				t.Errorf("Call of a tool that does not exist = %v, want the server's error", err)
			}
		})
	}
}

// TestOfficialClientUnderstandsTheTestServer holds the test server to what a client made elsewhere expects.
func TestOfficialClientUnderstandsTheTestServer(t *testing.T) {
	for _, o := range []upstreamtest.Options{
		{Era: upstreamtest.Modern}, {Era: upstreamtest.Modern, SSE: true}, {Era: upstreamtest.Legacy}, {Era: upstreamtest.Legacy, Sessions: true, SSE: true}, {},
	} {
		o.Tools, o.PageSize = tools(3), 2
		s := upstreamtest.New(t, o)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: s.URL, DisableStandaloneSSE: true}, nil)
		if err != nil {
			t.Fatalf("%+v: connect: %v", o, err)
		}
		n := 0
		for _, err := range session.Tools(ctx, nil) {
			if err != nil {
				t.Fatalf("list: %v", err)
			}
			n++
		}
		res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "tool_aa", Arguments: map[string]any{"x": 1}})
		if err != nil || res.IsError || n != 3 {
			t.Errorf("era %d: %d tools, call %+v, %v", o.Era, n, res, err)
		}
		_ = session.Close()
	}
}
