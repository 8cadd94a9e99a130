// Others is an MCP server and an agent for tests of a gateway, made with the official SDK. To
// change the server's tool, edit a file. The agent searches and calls tools.
//
//	others stdio FILE             a server on standard input and output
//	others serve ADDR FILE        the same server over HTTP
//	others search URL QUERY       prints the answer of retrieve_tools, with locked tools
//	others call URL TOOL ARGS     prints the answer of call_tool_write; exits with 1 if it is an error
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "others:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("want stdio, serve, search or call, and its arguments")
	}
	switch verb, rest := args[0], args[1:]; {
	case verb == "stdio":
		return newServer(rest[0]).Run(ctx, &mcp.StdioTransport{})
	case verb == "serve" && len(rest) == 2:
		handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return newServer(rest[1]) }, &mcp.StreamableHTTPOptions{Stateless: true})
		return http.ListenAndServe(rest[0], handler)
	case verb == "search" && len(rest) == 2:
		return ask(ctx, rest[0], "retrieve_tools", map[string]any{"query": rest[1], "include_disabled": true})
	case verb == "call" && len(rest) == 3:
		return ask(ctx, rest[0], "call_tool_write", map[string]any{"name": rest[1], "args": json.RawMessage(rest[2])})
	}
	return fmt.Errorf("unknown arguments %q", args)
}

type assignment struct {
	ID       int    `json:"id" jsonschema:"number of the ticket"`
	Assignee string `json:"assignee" jsonschema:"who gets it"`
}

// newServer returns a server with one tool. Each list takes the tool's description from the file.
func newServer(file string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "tickets", Version: "1.0.0"}, nil)
	read := func() {
		said, err := os.ReadFile(file)
		if err != nil {
			fmt.Fprintln(os.Stderr, "others:", err)
		}
		tool := &mcp.Tool{Name: "assign_ticket", Description: strings.TrimSpace(string(said)), Annotations: &mcp.ToolAnnotations{DestructiveHint: new(false)}}
		mcp.AddTool(s, tool, func(_ context.Context, _ *mcp.CallToolRequest, in assignment) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("ticket %d is with %s", in.ID, in.Assignee)}}}, nil, nil
		})
	}
	read()
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if method == "tools/list" {
				read()
			}
			return next(ctx, method, r)
		}
	})
	return s
}

// ask calls a tool of a gateway and prints the answer. If the answer is an error, ask returns an
// error.
func ask(ctx context.Context, url, tool string, args map[string]any) error {
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1.0.0"}, nil).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return err
	}
	for _, c := range result.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			fmt.Println(text.Text)
		}
	}
	if result.IsError {
		return errors.New("the answer is an error")
	}
	return nil
}
