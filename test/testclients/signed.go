package testclients

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/portcullis-mcp/portcullis/test/local"
)

// Signed contains servers of five kits that require a token of an issuer. Each starts a server on
// loopback until the test ends, and returns the address. The tool whoami says whose token it got.
var Signed = map[string]func(t testing.TB, issuer string) string{
	"typescript": func(t testing.TB, issuer string) string {
		return signedProgram(t, issuer, findNode(t), "signed.mjs")
	},
	"python": func(t testing.TB, issuer string) string {
		return signedProgram(t, issuer, findPython(t), "signed.py", "mcp")
	},
	"fastmcp": func(t testing.TB, issuer string) string {
		return signedProgram(t, issuer, findPython(t), "signed.py", "fastmcp")
	},
	"go-sdk": signedGoSDK,
	"mcp-go": signedMCPGo,
}

func signedProgram(t testing.TB, issuer, program string, args ...string) string {
	t.Helper()
	addr := local.Addr(t)
	_, port, _ := strings.Cut(addr, ":")
	cmd := exec.CommandContext(t.Context(), program, append(args, port, issuer)...)
	cmd.Dir = dir()
	return "http://" + serve(t, addr, cmd) + "/mcp"
}

func signedMCPGo(t testing.TB, issuer string) string {
	t.Helper()
	bin, addr := buildGo(t, "mcpgo", "./signed"), local.Addr(t)
	return "http://" + serve(t, addr, exec.CommandContext(t.Context(), bin, addr, issuer)) + "/mcp"
}

func signedGoSDK(t testing.TB, issuer string) string {
	t.Helper()
	return signedBy(t, issuer, func(resource, token string) (*auth.TokenInfo, error) {
		form := url.Values{"token": {token}, "client_id": {"servers"}}
		return lookUp(issuer+"/token/introspection", form, resource)
	})
}

// A lookup asks an issuer about a token for a resource.
type lookup func(resource, token string) (*auth.TokenInfo, error)

// signedBy starts a server by go-sdk on loopback until the test ends, and returns the address.
func signedBy(t testing.TB, issuer string, look lookup) string {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "signed", Version: "1"}, nil)
	type request = sdk.CallToolRequest
	sdk.AddTool(s, &sdk.Tool{
		Name: "whoami", Description: "Say whose token this is.",
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true},
	}, func(_ context.Context, r *request, _ struct{}) (*sdk.CallToolResult, any, error) {
		said := &sdk.TextContent{Text: "you are " + r.Extra.TokenInfo.UserID}
		return &sdk.CallToolResult{Content: []sdk.Content{said}}, nil, nil
	})
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	const metadata = "/.well-known/oauth-protected-resource/mcp"
	mux.Handle(metadata, auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: server.URL + "/mcp", AuthorizationServers: []string{issuer},
		ScopesSupported: []string{"read"},
	}))
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return look(server.URL+"/mcp", token)
	}
	mux.Handle("/mcp", auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{
		ResourceMetadataURL: server.URL + metadata, Scopes: []string{"read"},
	})(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)))
	return server.URL + "/mcp"
}

// lookUp sends a form with a token and a client to an endpoint of introspection.
func lookUp(at string, form url.Values, resource string) (*auth.TokenInfo, error) {
	resp, err := http.PostForm(at, form)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var found struct {
		Active                    bool
		Sub, Username, Aud, Scope string
		Exp                       int64
	}
	if err := json.NewDecoder(resp.Body).Decode(&found); err != nil {
		return nil, err
	}
	if !found.Active || found.Aud != resource {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{
		Scopes: strings.Fields(found.Scope), Expiration: time.Unix(found.Exp, 0),
		UserID: cmp.Or(found.Username, found.Sub),
	}, nil
}
