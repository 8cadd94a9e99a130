package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// asker returns a server of the official SDK. Its tool reports progress, and asks its client two
// questions, one after the other. In the stateless protocol the questions are results; in the
// handshake protocol they are requests.
func asker(t *testing.T, stateless bool) *httptest.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "asker", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "book"}, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		if token := req.Params.GetProgressToken(); token != nil {
			// the error does not matter: a client that has left reads nothing
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1, Message: "asking"})
		}
		elicit := func(message string) *mcp.ElicitParams {
			return &mcp.ElicitParams{Message: message, RequestedSchema: json.RawMessage(`{"type":"object","properties":{"x":{"type":"string"}}}`)}
		}
		said := func(text string) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
		}
		if !stateless {
			where, err := req.Session.Elicit(ctx, elicit("where to?"))
			if err != nil {
				return nil, nil, err
			}
			when, err := req.Session.Elicit(ctx, elicit("when?"))
			if err != nil {
				return nil, nil, err
			}
			return said(fmt.Sprintf("%s,%s", where.Content["x"], when.Content["x"]))
		}
		ask := func(message, state string) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": elicit(message)}, RequestState: state}, nil, nil
		}
		answer, _ := req.Params.InputResponses["q"].(*mcp.ElicitResult)
		switch {
		case answer == nil:
			return ask("where to?", "first")
		case req.Params.RequestState == "first":
			return ask("when?", fmt.Sprintf("%s,", answer.Content["x"]))
		}
		return said(req.Params.RequestState + fmt.Sprint(answer.Content["x"]))
	})
	srv := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: stateless}))
	t.Cleanup(srv.Close)
	return srv
}

// For each combination of protocols of client and server, the client gets the questions and the
// progress.
func TestQuestionsBetweenEras(t *testing.T) {
	p := start(t, t.TempDir())
	defer func() { _ = p.stop() }() // before the servers, which wait for their clients
	for _, server := range []string{"stateless", "handshake"} {
		srv := asker(t, server == "stateless")
		p.configure(fmt.Sprintf(`{"mcpServers": {"travel": {"url": %q, "approval": "off"}}}`, srv.URL))
		for _, e := range protocols {
			t.Run(e.name+" client, "+server+" server", func(t *testing.T) {
				var mu sync.Mutex
				var asked, told []string
				c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
					ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
						mu.Lock()
						defer mu.Unlock()
						asked = append(asked, r.Params.Message)
						return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"x": map[string]string{"where to?": "Rome", "when?": "May"}[r.Params.Message]}}, nil
					},
					ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
						mu.Lock()
						defer mu.Unlock()
						told = append(told, r.Params.Message)
					},
				})
				s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: p.URL + "/mcp"}, &mcp.ClientSessionOptions{ProtocolVersion: e.version})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				call := &mcp.CallToolParams{Name: "call_tool_destructive", Arguments: map[string]any{"name": "travel:book"}}
				call.SetProgressToken("mine")
				r, err := s.CallTool(t.Context(), call)
				if err != nil || len(r.Content) != 1 || r.Content[0].(*mcp.TextContent).Text != "Rome,May" {
					t.Fatalf("got %+v, %v", r, err)
				}
				mu.Lock()
				defer mu.Unlock()
				if strings.Join(asked, " ") != "where to? when?" || len(told) == 0 || told[0] != "asking" {
					t.Errorf("asked %q, told %q", asked, told)
				}
			})
		}
	}
}
