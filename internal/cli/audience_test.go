package cli

import (
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/probetest"
)

func bearing(credential string) http.Header {
	return http.Header{"Authorization": {"Bearer " + credential}}
}

// A client of /mcp/readonly gets tokens whose audience is that address. The tokens must not allow a
// deletion at another address.
func TestAudienceOfOneEndpoint(t *testing.T) {
	g := startGuarded(t, "search", nil)
	narrow := g.issuer.Token(g.audience+"/readonly", map[string]any{"scope": "portcullis:destructive portcullis:admin"})
	wide := g.issuer.Token(g.audience, map[string]any{"scope": "portcullis:destructive portcullis:admin"})
	deletion := probetest.Call("call_tool_destructive", `{"name":"files:delete_file","args":{"path":"x"}}`)
	for _, tt := range []struct {
		name, credential, path string
		want                   int
	}{
		{"token for /mcp/readonly at its own path", narrow, "/mcp/readonly", http.StatusOK},
		{"token for /mcp/readonly at /mcp", narrow, "/mcp", http.StatusUnauthorized},
		{"token for /mcp/readonly at a toolset", narrow, "/mcp/x/files", http.StatusUnauthorized},
		{"token for /mcp/readonly at /admin", narrow, "/admin/sync", http.StatusUnauthorized},
		{"wide at a toolset", wide, "/mcp/x/files", http.StatusOK},
		{"wide at the admin API", wide, "/admin/sync", http.StatusOK},
	} {
		calls := len(g.files.Calls())
		a := g.send(t, probetest.Request{Path: tt.path, Header: bearing(tt.credential), Body: deletion})
		if a.Status != tt.want {
			t.Errorf("%s: %d %s, want %d", tt.name, a.Status, a.Body, tt.want)
		}
		if deleted := len(g.files.Calls()) > calls; deleted != (tt.name == "wide at a toolset") {
			t.Errorf("%s: deleted = %v", tt.name, deleted)
		}
		if challenge := a.Header.Get("WWW-Authenticate"); a.Status == http.StatusUnauthorized && !strings.Contains(challenge, "invalid_token") && tt.path != "/admin/sync" {
			t.Errorf("%s: challenge %q", tt.name, challenge)
		}
	}
}

func TestThrottleSparesAJWT(t *testing.T) {
	g := startGuarded(t, "search", nil)
	for range 25 {
		if a := g.send(t, probetest.Request{Header: bearing(token.New().Reveal()), Body: probetest.RPC("tools/list", `{}`)}); a.Status != http.StatusUnauthorized && a.Status != http.StatusTooManyRequests {
			t.Fatalf("a made-up token gets %d", a.Status)
		}
	}
	if a := g.send(t, probetest.Request{Header: bearing(g.issuer.Token(g.audience, nil)), Body: probetest.RPC("tools/list", `{}`)}); a.Status != http.StatusOK {
		t.Errorf("the valid JWT gets %d %s", a.Status, a.Body)
	}
}
