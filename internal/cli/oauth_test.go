package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/portcullis-mcp/portcullis/test/probetest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/testclients"
)

// consent simulates a browser whose user agrees to everything.
func consent(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, args.URL, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	to, err := resp.Location()
	if err != nil {
		return nil, err
	}
	q := to.Query()
	if q.Get("code") == "" {
		return nil, errors.New("the issuer gave no code")
	}
	return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state")}, nil
}

// login opens a session with the SDK's client. The client gets only the gateway's address.
func (g *guardedGateway) login(t *testing.T) *mcp.ClientSession {
	t.Helper()
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "test", RedirectURIs: []string{"http://127.0.0.1:1/callback"},
		}},
		AuthorizationCodeFetcher: consent,
	})
	require.OK(t, err)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: g.URL + "/mcp", OAuthHandler: handler, DisableStandaloneSSE: true}, nil)
	require.OK(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func deleteFile() *mcp.CallToolParams {
	return &mcp.CallToolParams{Name: "call_tool_destructive", Arguments: map[string]any{"name": "files:delete_file", "args": map[string]any{"path": "/x"}}}
}

func TestOAuthClient(t *testing.T) {
	g := startGuarded(t, "search", map[string]string{"PORTCULLIS_SIGN_IN_SCOPES": "read"})
	g.issuer.Grant("portcullis:read", "portcullis:destructive")
	s := g.login(t)
	if instructions := s.InitializeResult().Instructions; !strings.Contains(instructions, "files") || strings.Contains(instructions, "vault") {
		t.Errorf("instructions = %q", instructions)
	}
	read, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "call_tool_read", Arguments: map[string]any{"name": "files:read_file", "args": map[string]any{"path": "/x"}}})
	if err != nil || read.IsError {
		t.Fatalf("call_tool_read = %+v, %v", read, err)
	}
	if d := cmp.Diff([]string{"portcullis:read"}, g.issuer.Asked()); d != "" {
		t.Errorf("scopes asked for (-want +got):\n%s", d)
	}
	deleted, err := s.CallTool(t.Context(), deleteFile())
	if err != nil || deleted.IsError {
		t.Fatalf("call_tool_destructive = %+v, %v", deleted, err)
	}
	asked := g.issuer.Asked()
	last := strings.Fields(asked[len(asked)-1])
	if len(asked) != 2 || !slices.Contains(last, "portcullis:destructive") {
		t.Errorf("scopes asked for: %q, want destructive in a second request", asked)
	}
	for _, r := range g.files.Requests() {
		if h := r.Header.Get("Authorization"); h != "" {
			t.Errorf("the upstream server received the caller's token: %q", h)
		}
	}
}

func TestOAuthTooSmallAScope(t *testing.T) {
	g := startGuarded(t, "search", nil)
	g.issuer.Grant("portcullis:read")
	s := g.login(t)
	if _, err := s.CallTool(t.Context(), deleteFile()); err == nil {
		t.Error("a call beyond the scope succeeded")
	}
	a := g.send(t, probetest.Request{
		Header: http.Header{"Authorization": {"Bearer " + g.issuer.Token(g.audience, map[string]any{"scope": "portcullis:read"})}},
		Body:   probetest.Call("call_tool_destructive", `{"name":"files:delete_file","args":{}}`),
	})
	want := `Bearer error="insufficient_scope", scope="portcullis:destructive", resource_metadata="` + g.URL + `/.well-known/oauth-protected-resource/mcp"`
	if got := a.Header.Get("WWW-Authenticate"); a.Status != http.StatusForbidden || got != want || !strings.Contains(a.Body, `"id":"probe-7"`) || !strings.Contains(a.Body, "It needs the scope portcullis:destructive.") {
		t.Errorf("answered %d, challenge %q, want %q: %s", a.Status, got, want, a.Body)
	}
	if n := len(g.files.Calls()); n > 0 {
		t.Errorf("%d calls reached the upstream server", n)
	}
}

// callOf returns a step that calls a tool about a file through one of the gateway's tools.
func callOf(variant, name string) testclients.Step {
	return testclients.Step{Method: "tools/call", Params: json.RawMessage(fmt.Sprintf(
		`{"name":%q,"arguments":{"name":%q,"args":{"path":"/x"}}}`, variant, name))}
}

// The clients get more scopes when a call needs them. A strict issuer gives a client only the
// scopes that the client registered, which come from the first challenge.
func TestTypeScriptOAuth(t *testing.T) {
	t.Parallel()
	const all = "portcullis:read portcullis:write portcullis:destructive"
	for _, mode := range []string{testclients.SDK, testclients.Legacy, testclients.Auto} {
		for _, strict := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, strict issuer %t", mode, strict), func(t *testing.T) {
				env := map[string]string{"PORTCULLIS_SIGN_IN_SCOPES": "read"}
				if strict {
					env = map[string]string{
						"PORTCULLIS_ISSUER": testclients.Issuer(t, strings.Fields(all)...),
					}
				}
				g := startGuarded(t, "search", env)
				g.issuer.Grant("portcullis:read", "portcullis:destructive")
				got := testclients.OAuth(t, mode, g.URL+"/mcp",
					callOf("call_tool_read", "files:read_file"),
					callOf("call_tool_destructive", "files:delete_file"))
				for i, a := range got.Answers {
					if a.Error != nil || !strings.Contains(string(a.Result), "content") {
						t.Errorf("step %d: %+v %s", i, a.Error, a.Result)
					}
				}
				stepUp := len(got.Asked) == 2 && got.Asked[0] == "portcullis:read" &&
					slices.Contains(strings.Fields(got.Asked[1]), "portcullis:destructive")
				once := slices.Equal(got.Asked, []string{all})
				if strict && !once || !strict && !stepUp {
					t.Errorf("scopes asked for: %q", got.Asked)
				}
				if n := len(g.files.Calls()); n != 2 {
					t.Errorf("%d calls reached the upstream server, want 2", n)
				}
			})
		}
	}
}
