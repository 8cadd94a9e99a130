package mcphttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

// A clock is a backend with one tool. It offers nothing else, so the other methods of a session are
// not called.
type clock struct{ mcphttp.Session }

func (c clock) Open(context.Context, gateway.Caller) (mcphttp.Session, error) { return c, nil }

func (clock) Stopped(context.Context, identity.Agent) error { return nil }

func (clock) While(ctx context.Context, _ identity.Agent) (context.Context, func()) {
	return context.WithCancel(ctx)
}

func (clock) DeclaresOutput(string) bool { return false }

func (clock) CallTool(context.Context, mcp.Request, mcp.Client) (json.RawMessage, error) {
	return json.RawMessage(`{"content":[{"type":"text","text":"12:00"}]}`), nil
}

func Example() {
	h, err := mcphttp.New(clock{}, identity.None{}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	srv := httptest.NewServer(h)
	defer srv.Close()

	body := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"now"}}`)
	res, err := http.Post(srv.URL+"/mcp", "application/json", body)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	fmt.Println(string(answer), err)
	// Output: {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"12:00"}]}} <nil>
}
