package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity/identitytest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/probetest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A guardedGateway runs with an issuer and agent tokens, in front of two servers.
type guardedGateway struct {
	*program
	issuer   *identitytest.Issuer
	root     secret.Text // may use /admin, to create tokens
	audience string
	files    *upstreamtest.Server
	vault    *upstreamtest.Server
}

func startGuarded(t *testing.T, mode string, env map[string]string) *guardedGateway {
	t.Helper()
	return startGuardedBelow(t, "", mode, env)
}

// startGuardedBelow starts a gateway whose address has a path.
func startGuardedBelow(t *testing.T, path, mode string, env map[string]string) *guardedGateway {
	t.Helper()
	g := &guardedGateway{issuer: identitytest.Start(t), root: token.New()}
	g.files = upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{
		upstreamtest.Tool("read_file", "Read a file.", `{"readOnlyHint":true}`, "path"),
		upstreamtest.Tool("delete_file", "Delete a file.", `{"destructiveHint":true}`, "path"),
	}})
	g.vault = upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{
		upstreamtest.Tool(probetest.Secret, "it is a secret", `{"readOnlyHint":true}`, "path"),
		upstreamtest.Tool(probetest.Long, "it is a secret", `{"readOnlyHint":true}`, "path"),
	}})
	dir, addr := t.TempDir(), local.Addr(t) // part of the audience of the issuer's tokens
	programtest.WriteConfig(t, dir, fmt.Sprintf(`{"mcpServers":{"files":{"url":%q,"approval":"off"},"vault":{"url":%q,"approval":"off"}},"gateway":{"mode":%q}}`, g.files.URL, g.vault.URL, mode))
	base := "http://" + addr + path
	g.audience = base + "/mcp"
	all := map[string]string{
		"PORTCULLIS_AUTH": "jwt,token", "PORTCULLIS_BASE_URL": base,
		"PORTCULLIS_ISSUER":   g.issuer.URL,
		"PORTCULLIS_AUDIENCE": g.audience + "," + g.audience + "/readonly", "PORTCULLIS_ALGORITHMS": "ES256,RS256",
		"PORTCULLIS_DEFAULT_SERVERS": "files", "PORTCULLIS_ADMIN_GROUP": "gatekeepers",
		"PORTCULLIS_TOKEN_KEY": "a key that is for tests alone, of 32 bytes and more", "PORTCULLIS_BOOTSTRAP_SHA256": token.Digest(g.root),
	}
	for name, value := range env {
		all[name] = value
	}
	g.program = startWith(t, all, dir, "--addr", addr)
	return g
}

// mint creates a token and returns its text and id.
func (g *guardedGateway) mint(body string) (text, id string) {
	g.T.Helper()
	var made struct{ ID, Token string }
	g.Ask(http.StatusCreated, "/admin/tokens", json.RawMessage(body), &made, "Authorization: Bearer "+g.root.Reveal())
	return made.Token, made.ID
}

// send sends a request unchanged.
func (g *guardedGateway) send(t *testing.T, r probetest.Request) agenttest.Answer {
	t.Helper()
	return g.probe().Send(t, r)
}

func (g *guardedGateway) probe() probetest.Gateway {
	return probetest.Gateway{URL: g.URL, From: from, Issuer: g.issuer, Audience: g.audience}
}

// from returns a transport whose connections come from an address of this machine.
func from(address string) http.RoundTripper {
	if address == "" {
		return http.DefaultTransport
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}
}

const filesToken = `{"name":"ci","servers":["files"],"tiers":["read","write","destructive"],"days":1}`

func TestAccessRefused(t *testing.T) {
	g := startGuarded(t, "direct", nil)
	w := g.probe()
	w.Direct = true
	w.Agent, _ = g.mint(filesToken)
	var id string
	w.Revoked, id = g.mint(filesToken)
	list := func(path, credential string) int {
		return g.send(t, probetest.Request{
			Path: path, Header: http.Header{"Authorization": {"Bearer " + credential}},
			Body: probetest.RPC("tools/list", `{}`),
		}).Status
	}
	// Failed tokens of other callers do not slow down a known caller at the same address.
	for _, credential := range []string{w.Agent, w.Revoked} {
		if got := list("/mcp", credential); got != http.StatusOK {
			t.Fatalf("a valid token gets %d", got)
		}
	}
	// A token for the audience of one path is valid only there.
	narrow := g.issuer.Token(g.audience+"/readonly", map[string]any{"scope": "portcullis:admin"})
	for path, want := range map[string]int{
		"/mcp/readonly": http.StatusOK, "/mcp": http.StatusUnauthorized,
		"/admin/sync": http.StatusUnauthorized,
	} {
		if got := list(path, narrow); got != want {
			t.Errorf("a token for /mcp/readonly at %s gets %d, want %d", path, got, want)
		}
	}
	boot := "Authorization: Bearer " + g.root.Reveal()
	g.Ask(http.StatusOK, "/admin/tokens/"+id+"/revoke", `{}`, nil, boot)
	t.Run("out of scope", w.OutOfScope)
	t.Run("strangers", w.Strangers)
	t.Run("flood", w.Flood)
	if n := len(g.vault.Calls()); n > 0 {
		t.Errorf("%d calls reached the server that is out of scope", n)
	}
	w.Quiet(t, []byte(g.log.String()))
}
