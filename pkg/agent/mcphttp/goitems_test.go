package mcphttp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

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

// goServer starts a server of the official Go SDK with prompts, resources and completion.
func goServer(t *testing.T) string {
	t.Helper()
	complete := func(_ context.Context, r *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
		return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{r.Params.Ref.Name + r.Params.Ref.URI, r.Params.Argument.Value + "!"}}}, nil
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "up", Version: "1"}, &sdk.ServerOptions{CompletionHandler: complete})
	for _, name := range []string{"greet", "shout"} {
		s.AddPrompt(&sdk.Prompt{Name: name, Arguments: []*sdk.PromptArgument{{Name: "who"}}}, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: r.Params.Name + " " + r.Params.Arguments["who"]}}}}, nil
		})
	}
	read := func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		if strings.HasSuffix(r.Params.URI, "/none") {
			return nil, sdk.ResourceNotFoundError(r.Params.URI)
		}
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, Text: "it is " + r.Params.URI}}}, nil
	}
	s.AddResource(&sdk.Resource{URI: "file:///a b.txt", Name: "spaced"}, read)
	s.AddResource(&sdk.Resource{URI: "file:///a.txt?x=1#%C3%A9", Name: "a"}, read)
	s.AddResource(&sdk.Resource{URI: "file:///shut.txt", Name: "shut"}, read)
	s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "db://{table}/{id}", Name: "row"}, read)
	srv := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(srv.Close)
	return srv.URL
}

// The official Go client reads the items of a server of the official SDK through the gateway.
func TestGoClientItems(t *testing.T) {
	gw := gatewaytest.NewLive(t)
	gw.Serve("up").URL = goServer(t)
	gw.Configure(nil)
	gw.Sync()
	gw.Decide("up:prompt:shout", "disable")
	gw.Decide("up:resource:file:///shut.txt", "disable")
	gw.Clock.Wait(time.Minute)
	srv := httptest.NewServer(newHandler(t, gated{gw}, nil))
	defer srv.Close()
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			s := connect(t, srv.URL, version)
			if c := s.InitializeResult().Capabilities; c.Prompts == nil || c.Resources == nil || c.Completions == nil || c.Resources.Subscribe {
				t.Errorf("declared %+v", c)
			}
			checkGoLists(t, s)
			checkGoReads(t, s)
			wantCode := func(what string, err error, code int64, message string) {
				t.Helper()
				if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != code || !strings.Contains(e.Message, message) {
					t.Errorf("%s: %v, want %d %s", what, err, code, message)
				}
			}
			_, err := s.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "up__shout"})
			wantCode("a locked prompt", err, 4030, "Ask the user to re-enable it")
			_, err = s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "file:///shut.txt"})
			wantCode("a locked resource", err, 4030, "Resource is disabled and cannot be read.")
			_, err = s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "file:///b.txt"})
			wantCode("an unknown resource", err, -32602, "Unknown resource")
			_, err = s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "db://t/none"})
			if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code == 4030 || !strings.Contains(string(e.Data), "db://t/none") {
				t.Errorf("the server's own error: %v", err)
			}
			if _, err := s.ListPrompts(t.Context(), nil); err != nil {
				t.Errorf("after errors: %v", err)
			}
		})
	}
}

func checkGoLists(t *testing.T, s *sdk.ClientSession) {
	t.Helper()
	prompts, err := s.ListPrompts(t.Context(), nil)
	if err != nil || len(prompts.Prompts) != 1 || prompts.Prompts[0].Name != "up__greet" || prompts.CacheScope != "private" {
		t.Errorf("prompts: %+v, %v", prompts, err)
	}
	resources, err := s.ListResources(t.Context(), nil)
	require.OK(t, err)
	var uris []string
	for _, r := range resources.Resources {
		uris = append(uris, r.URI)
	}
	if !slices.Equal(uris, []string{"file:///a.txt?x=1#%C3%A9"}) { // a URI with a blank is refused
		t.Errorf("resources: %q", uris)
	}
	templates, err := s.ListResourceTemplates(t.Context(), nil)
	if err != nil || len(templates.ResourceTemplates) != 1 || templates.ResourceTemplates[0].URITemplate != "db://{table}/{id}" {
		t.Errorf("templates: %+v, %v", templates, err)
	}
}

func checkGoReads(t *testing.T, s *sdk.ClientSession) {
	t.Helper()
	got, err := s.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "up__greet", Arguments: map[string]string{"who": "é"}})
	if err != nil || got.Messages[0].Content.(*sdk.TextContent).Text != "greet é" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, uri := range []string{"file:///a.txt?x=1#%C3%A9", "db://t/7"} {
		read, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
		if err != nil || read.Contents[0].URI != uri || read.Contents[0].Text != "it is "+uri || read.CacheScope != "private" {
			t.Errorf("%s: %+v, %v", uri, read, err)
		}
	}
	for _, ref := range []*sdk.CompleteReference{{Type: "ref/prompt", Name: "up__greet"}, {Type: "ref/resource", URI: "db://{table}/{id}"}} {
		done, err := s.Complete(t.Context(), &sdk.CompleteParams{Ref: ref, Argument: sdk.CompleteParamsArgument{Name: "who", Value: "v"}})
		if want := strings.TrimPrefix(ref.Name, "up__") + ref.URI; err != nil || !slices.Equal(done.Completion.Values, []string{want, "v!"}) {
			t.Errorf("%+v: %+v, %v", ref, done, err)
		}
	}
}
