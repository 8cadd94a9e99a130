package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

type greeting struct {
	Name string `json:"name"`
}

// sdkServer is a server of the official SDK with one tool.
func sdkServer(o *sdk.StreamableHTTPOptions) http.Handler {
	s := sdk.NewServer(&sdk.Implementation{Name: "sdk", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "greet", Description: "Says hello."}, func(_ context.Context, _ *sdk.CallToolRequest, in greeting) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "hello " + in.Name}}}, nil, nil
	})
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, o)
}

func TestOfficialServers(t *testing.T) {
	for name, o := range map[string]*sdk.StreamableHTTPOptions{
		"stateless, JSON":         {Stateless: true, JSONResponse: true},
		"stateless, events":       {Stateless: true},
		"sessions, JSON":          {JSONResponse: true},
		"sessions, event streams": {},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(sdkServer(o))
			defer s.Close()
			c := newClient(t, Options{})
			defer c.Close()
			target := Target{ID: "sdk", URL: s.URL}
			for range 2 {
				out := c.Load(t.Context(), target)
				if out.Status != outcome.Available || out.Attempts != 1 || len(out.Tools) != 1 || out.Tools[0].Name != "greet" {
					t.Fatalf("Load = %s %s (%s) after %d attempts, %d tools", out.Status, out.Reason, out.Error, out.Attempts, len(out.Tools))
				}
			}
			got, err := c.Call(t.Context(), target, Call{Name: "greet", Arguments: json.RawMessage(`{"name":"Ada"}`)})
			if err != nil || !strings.Contains(string(got), "hello Ada") {
				t.Errorf("Call = %s, %v", got, err)
			}
			// The agent can fix arguments of the wrong type, in each form of the server's error.
			got, err = c.Call(t.Context(), target, Call{Name: "greet", Arguments: json.RawMessage(`{"name":7}`)})
			if rpc, ok := errors.AsType[*outcome.RPCError](err); !strings.Contains(string(got), `"isError":true`) && (!ok || rpc.Code != mcp.CodeInvalidParams) {
				t.Errorf("Call with wrong arguments = %s, %v", got, err)
			}
			_, err = c.Call(t.Context(), target, Call{Name: "none"})
			if rpc, ok := errors.AsType[*outcome.RPCError](err); !ok || rpc.Code != mcp.CodeInvalidParams {
				t.Errorf("Call of a tool that does not exist = %v, want the server's error", err)
			}
		})
	}
}
