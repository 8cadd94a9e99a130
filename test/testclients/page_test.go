package testclients

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portcullis-mcp/portcullis/test/programtest"
)

// accountPage is the page that the servers of TestPages ask the user to open.
var accountPage = sdk.ElicitParams{
	Mode: "url", ElicitationID: "7", Message: "Connect your account",
	URL: "https://accounts.example.com/connect?id=7",
}

// pages starts a server whose tools ask the user to open a page: visit asks during the call, and
// refuse answers the call with the error that names the page (only in the handshake protocol).
func pages(t *testing.T) string {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "pages", Version: "1"}, nil)
	readOnly := &sdk.ToolAnnotations{ReadOnlyHint: true}
	visit := func(
		ctx context.Context, r *sdk.CallToolRequest, _ struct{},
	) (*sdk.CallToolResult, any, error) {
		if r.Session.InitializeParams().ProtocolVersion >= "2026" {
			if answer, ok := r.Params.InputResponses["page"].(*sdk.ElicitResult); ok {
				return text("the user answered: " + answer.Action), nil, nil
			}
			page := accountPage
			page.ElicitationID = "" // this protocol has none
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"page": &page}}, nil, nil
		}
		page := accountPage
		answer, err := r.Session.Elicit(ctx, &page)
		if err != nil {
			return nil, nil, err
		}
		return text("the user answered: " + answer.Action), nil, nil
	}
	refuse := func(
		context.Context, *sdk.CallToolRequest, struct{},
	) (*sdk.CallToolResult, any, error) {
		page := accountPage
		return nil, nil, sdk.URLElicitationRequiredError([]*sdk.ElicitParams{&page})
	}
	sdk.AddTool(s, &sdk.Tool{Name: "visit", Annotations: readOnly}, visit)
	sdk.AddTool(s, &sdk.Tool{Name: "refuse", Annotations: readOnly}, refuse)
	handler := func(stateless bool) http.Handler {
		return sdk.NewStreamableHTTPHandler(
			func(*http.Request) *sdk.Server { return s },
			&sdk.StreamableHTTPOptions{Stateless: stateless},
		)
	}
	mux := http.NewServeMux()
	mux.Handle("/stateless", handler(true))
	mux.Handle("/handshake", handler(false))
	server := httptest.NewServer(mux)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL
}

// Servers of both protocols ask for a page, and clients of both protocols open it. A client that
// does not declare this gets an error that says so.
func TestPages(t *testing.T) {
	findNode(t)
	folder := t.TempDir()
	programtest.WriteConfig(t, folder, fmt.Sprintf(`{"mcpServers": {
		"stateless": {"url": "%[1]s/stateless", "approval": "off"},
		"handshake": {"url": "%[1]s/handshake", "approval": "off", "protocol": "2025-11-25"}},
		"gateway": {"mode": "direct"}}`, pages(t)))
	p := programtest.Start(t, folder)
	visits := []Step{call("stateless__visit", `{}`), call("handshake__visit", `{}`)}
	clients := Clients[:3]
	if lanes == "" {
		clients = Clients[:1]
	}
	for _, c := range clients {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			at := Endpoint{URL: p.URL + "/mcp"}
			told := c.Visit(t, at, Visit{Opens: []string{"accept", "decline"}}, visits...)
			for i, action := range []string{"accept", "decline"} {
				want := Opened{action, accountPage.Message, accountPage.URL}
				if i >= len(told.Opened) || told.Opened[i] != want {
					t.Errorf("the client opens %+v, want %+v", told.Opened, want)
				}
				wantText(t, told.Answers[i], "the user answered: "+action)
			}
			told = c.Visit(t, at, Visit{}, append(visits, call("handshake__refuse", `{}`))...)
			wantText(
				t,
				told.Answers[0],
				"this client has not declared that it can give it: elicitation",
			)
			wantText(t, told.Answers[1], "elicitation")
			failed := told.Answers[2].Error
			if failed == nil || fmt.Sprint(failed.Code) != "-32042" ||
				failed.URL != accountPage.URL {
				t.Errorf("the error that names a page is %+v", failed)
			}
			if len(told.Opened) != 0 {
				t.Errorf("the client opens %+v", told.Opened)
			}
		})
	}
}

// wantText checks that an answer, which may be an error, contains a text.
func wantText(t *testing.T, a Answer, want string) {
	t.Helper()
	got := string(a.Result)
	if a.Error != nil {
		got = a.Error.Message
	}
	if !strings.Contains(got, want) {
		t.Errorf("the answer is %s, want %q", got, want)
	}
}
