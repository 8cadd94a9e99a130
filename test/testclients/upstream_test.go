package testclients

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// An upstream is a server with slow tools and tools with too large answers.
type upstream struct {
	URL   string
	ended chan bool // for each call of count that ends: whether it was cancelled
}

type counting struct {
	Steps int     `json:"steps"`
	Every float64 `json:"every" jsonschema:"seconds"`
}

type sized struct {
	Bytes int `json:"bytes"`
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{ended: make(chan bool, 100)}
	s := sdk.NewServer(&sdk.Implementation{Name: "upstream", Version: "1"}, nil)
	readOnly := &sdk.ToolAnnotations{ReadOnlyHint: true}
	sdk.AddTool(s, &sdk.Tool{Name: "count", Description: "Count, with a progress report at each step.", Annotations: readOnly},
		func(ctx context.Context, r *sdk.CallToolRequest, in counting) (*sdk.CallToolResult, any, error) {
			err := u.count(ctx, r, in)
			u.ended <- err != nil
			return text(fmt.Sprintf("counted to %d", in.Steps)), nil, err
		})
	sdk.AddTool(s, &sdk.Tool{Name: "picture", Description: "Return an image.", Annotations: readOnly},
		func(_ context.Context, _ *sdk.CallToolRequest, in sized) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{Data: bytes.Repeat([]byte{7}, in.Bytes), MIMEType: "image/png"}}}, nil, nil
		})
	sdk.AddTool(s, &sdk.Tool{Name: "sign", Description: "Ask for a name.", Annotations: readOnly},
		func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
			answer, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Who are you?", RequestedSchema: map[string]any{
				"type": "object", "properties": map[string]any{"value": map[string]any{"type": "string"}},
			}})
			if err != nil {
				return nil, nil, err
			}
			return text(fmt.Sprintf("%s: %v", answer.Action, answer.Content["value"])), nil, nil
		})
	s.AddResource(&sdk.Resource{Name: "large", URI: "test://large"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "test://large", Text: strings.Repeat("x", 50<<20)}}}, nil
	})
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	server := httptest.NewServer(h)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	u.URL = server.URL
	return u
}

func (u *upstream) count(ctx context.Context, r *sdk.CallToolRequest, in counting) error {
	step := time.NewTimer(0)
	defer step.Stop()
	<-step.C
	for i := range in.Steps {
		if token := r.Params.GetProgressToken(); token != nil {
			p := &sdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(i + 1), Total: float64(in.Steps)}
			if err := r.Session.NotifyProgress(ctx, p); err != nil {
				return err
			}
		}
		if in.Every == 0 {
			continue
		}
		step.Reset(time.Duration(in.Every * float64(time.Second)))
		select {
		case <-step.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

func text(s string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
}
