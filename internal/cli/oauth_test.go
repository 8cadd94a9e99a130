package cli

import (
	"context"
	"errors"
	"net/http"
	"net/url"
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

func TestOAuthMetadata(t *testing.T) {
	g := startGuarded(t, "search", nil)
	for path, resource := range map[string]string{"": "", "/mcp": "/mcp", "/mcp/readonly": "/mcp/readonly"} {
		var got map[string]any
		g.Ask(http.StatusOK, "/.well-known/oauth-protected-resource"+path, nil, &got)
		want := map[string]any{
			"resource": g.URL + resource, "authorization_servers": []any{g.issuer.URL}, "bearer_methods_supported": []any{"header"},
			"scopes_supported": []any{"portcullis:read", "portcullis:write", "portcullis:destructive"}, "resource_name": "portcullis",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("metadata of %q (-want +got):\n%s", path, d)
		}
	}
}

func TestAuditNamesTheAdmin(t *testing.T) {
	g := startGuarded(t, "search", nil)
	bearer := func(over map[string]any) []string {
		return []string{"Authorization: Bearer " + g.issuer.Token(g.audience, over)}
	}
	const path = "/admin/tools/files/read_file/disable"
	g.Ask(http.StatusUnauthorized, path, `{}`, nil)
	g.Ask(http.StatusForbidden, path, `{}`, nil, bearer(map[string]any{"scope": "portcullis:destructive", "groups": []string{"others"}})...)
	g.Ask(http.StatusForbidden, "/admin/audit", nil, nil, bearer(nil)...)
	kim := bearer(map[string]any{"groups": []string{"gatekeepers"}, "sub": "kim@example.com"})
	spoof := append(slices.Clone(kim), "X-Actor: root", "X-Forwarded-User: root")
	g.Ask(http.StatusOK, path, `{}`, nil, spoof...)
	var audit struct {
		Entries []struct{ Actor, Action, Tool string }
	}
	g.Ask(http.StatusOK, "/admin/audit?server=files", nil, &audit, kim...)
	if len(audit.Entries) == 0 || audit.Entries[0].Actor != "kim@example.com" || audit.Entries[0].Action != "disable" {
		t.Errorf("audit = %+v", audit.Entries)
	}
}

func TestHealthz(t *testing.T) {
	g := startGuarded(t, "search", nil)
	agent, _ := g.mint(filesToken)
	for credential, want := range map[string]int{"": http.StatusUnauthorized, agent: http.StatusForbidden, g.root.Reveal(): http.StatusOK} {
		var header []string
		if credential != "" {
			header = []string{"Authorization: Bearer " + credential}
		}
		var word map[string]any
		g.Ask(http.StatusOK, "/healthz", nil, &word, header...)
		if len(word) != 1 || word["status"] != "ok" {
			t.Errorf("/healthz = %v, want one word", word)
		}
		var health map[string]any
		g.Ask(want, "/admin/health", nil, &health, header...)
		if _, told := health["reasons"]; told != (want == http.StatusOK) || told && (health["status"] != "ok" || health["tools"] != 4.0) {
			t.Errorf("/admin/health = %v", health)
		}
	}
}

func TestRevokedToken(t *testing.T) {
	g := startGuarded(t, "search", nil)
	text, id := g.mint(filesToken)
	list := func() int {
		return g.send(t, probetest.Request{Header: http.Header{"Authorization": {"Bearer " + text}}, Body: probetest.RPC("tools/list", `{}`)}).Status
	}
	if got := list(); got != http.StatusOK {
		t.Fatalf("before: %d", got)
	}
	g.Ask(http.StatusOK, "/admin/tokens/"+url.PathEscape(id)+"/revoke", `{}`, nil, "Authorization: Bearer "+g.root.Reveal())
	if got := list(); got != http.StatusUnauthorized {
		t.Errorf("after: %d, want 401", got)
	}
	if strings.Contains(g.log.String(), text) || strings.Contains(g.log.String(), g.root.Reveal()) {
		t.Error("a token is in the log")
	}
}

func TestTypeScriptOAuth(t *testing.T) {
	for _, mode := range []string{testclients.SDK, testclients.Legacy, testclients.Auto} {
		t.Run(mode, func(t *testing.T) {
			g := startGuarded(t, "search", map[string]string{"PORTCULLIS_SIGN_IN_SCOPES": "read"})
			g.issuer.Grant("portcullis:read", "portcullis:destructive")
			got := testclients.OAuth(t, mode, g.URL+"/mcp",
				callOf("call_tool_read", `{"name":"files:read_file","args":{"path":"/x"}}`),
				callOf("call_tool_destructive", `{"name":"files:delete_file","args":{"path":"/x"}}`))
			for i, a := range got.Answers {
				if a.Error != nil || !strings.Contains(string(a.Result), "content") {
					t.Errorf("step %d: %+v %s", i, a.Error, a.Result)
				}
			}
			if !strings.Contains(got.Instructions, "files") || strings.Contains(got.Instructions, "vault") {
				t.Errorf("instructions = %q", got.Instructions)
			}
			if len(got.Asked) != 2 || got.Asked[0] != "portcullis:read" || !slices.Contains(strings.Fields(got.Asked[1]), "portcullis:destructive") {
				t.Errorf("scopes asked for: %q", got.Asked)
			}
		})
	}
}

func TestTypeScriptTooSmallAScope(t *testing.T) {
	for _, mode := range []string{testclients.SDK, testclients.Legacy, testclients.Auto} {
		t.Run(mode, func(t *testing.T) {
			g := startGuarded(t, "search", nil)
			g.issuer.Grant("portcullis:read")
			got := testclients.OAuth(t, mode, g.URL+"/mcp", callOf("call_tool_destructive", `{"name":"files:delete_file","args":{"path":"/x"}}`))
			if got.Answers[0].Error == nil || !slices.ContainsFunc(got.Asked, func(s string) bool { return strings.Contains(s, "portcullis:destructive") }) {
				t.Errorf("answer %+v after asking for %q", got.Answers[0], got.Asked)
			}
			if n := len(g.files.Calls()); n > 0 {
				t.Errorf("%d calls reached the upstream server", n)
			}
		})
	}
}

// The issuer gives a client only the scopes that the client registered, which come from the first
// challenge.
func TestTypeScriptStrictIssuer(t *testing.T) {
	for _, mode := range []string{testclients.SDK, testclients.Legacy, testclients.Auto} {
		t.Run(mode, func(t *testing.T) {
			issuer := testclients.Issuer(t, "portcullis:read", "portcullis:write", "portcullis:destructive")
			g := startGuarded(t, "search", map[string]string{"PORTCULLIS_ISSUER": issuer})
			got := testclients.OAuth(t, mode, g.URL+"/mcp",
				callOf("call_tool_read", `{"name":"files:read_file","args":{"path":"/x"}}`),
				callOf("call_tool_destructive", `{"name":"files:delete_file","args":{"path":"/x"}}`))
			for i, a := range got.Answers {
				if a.Error != nil || !strings.Contains(string(a.Result), "content") {
					t.Errorf("step %d: %+v %s", i, a.Error, a.Result)
				}
			}
			if d := cmp.Diff([]string{"portcullis:read portcullis:write portcullis:destructive"}, got.Asked); d != "" {
				t.Errorf("scopes asked for (-want +got):\n%s", d)
			}
			if n := len(g.files.Calls()); n != 2 {
				t.Errorf("%d calls reached the upstream server, want 2", n)
			}
		})
	}
}
