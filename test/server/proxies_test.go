package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// The addresses of the examples, at the root of a host and below a path.
var bases = []string{"https://gate.example.com", "https://example.com/gate"}

const caddyOptions = `{
	admin off
	local_certs
	skip_install_trust
	http_port %s
	https_port %s
}
`

func TestCaddy(t *testing.T) {
	caddy, sites := program(t, "caddy"), examples(t, "caddyfile")
	for i, base := range bases {
		t.Run(base, func(t *testing.T) {
			g := startBehind(t, base)
			_, http, _ := net.SplitHostPort(local.Addr(t))
			_, https, _ := net.SplitHostPort(g.proxy)
			site := change(t, sites[i], "127.0.0.1:8080", g.listens)
			file := write(t, "Caddyfile", fmt.Sprintf(caddyOptions, http, https)+site)
			args := []string{"--adapter", "caddyfile", "--config", file}
			succeeds(t, caddy, append([]string{"adapt"}, args...)...)
			cmd := exec.CommandContext(t.Context(), caddy, append([]string{"run"}, args...)...)
			home := t.TempDir()
			cmd.Env = append(os.Environ(), "HOME="+home, "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home)
			g.check(t, cmd)
		})
	}
}

const nginxOptions = `daemon off;
pid nginx.pid;
events {}
http {
access_log off;
client_body_temp_path body;
proxy_temp_path proxy;
%s}
`

func TestNginx(t *testing.T) {
	nginx, examples := program(t, "nginx"), examples(t, "nginx")
	everything := regexp.MustCompile(`(?s)\tlocation / \{.*?\n\t\}\n`)
	for _, base := range bases {
		t.Run(base, func(t *testing.T) {
			g, site := startBehind(t, base), examples[0]
			if strings.HasSuffix(base, "/gate") {
				site = everything.ReplaceAllLiteralString(site, examples[1])
				site = change(t, site, "gate.example.com", "example.com")
			}
			cert, key := certificate(t)
			site = change(t, site, "listen 443", "listen "+g.proxy)
			site = change(t, site, "127.0.0.1:8080", g.listens)
			site = change(t, site, "/etc/ssl/gate.pem", cert)
			site = change(t, site, "/etc/ssl/gate.key", key)
			text := fmt.Sprintf(nginxOptions, site)
			if os.Geteuid() == 0 {
				text = "user root;\n" + text // the folders belong to the user of the test
			}
			args := []string{"-p", t.TempDir(), "-e", "stderr", "-c", write(t, "nginx.conf", text)}
			succeeds(t, nginx, append(args, "-t")...)
			g.check(t, exec.CommandContext(t.Context(), nginx, args...))
		})
	}
}

// succeeds runs a command that must succeed.
func succeeds(t *testing.T, path string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", path, args, err, out)
	}
}

// certificate writes a certificate and its key into files.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	pair := s.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.OK(t, err)
	public := pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}
	secret := pem.Block{Type: "PRIVATE KEY", Bytes: private}
	return write(t, "cert.pem", string(pem.EncodeToMemory(&public))),
		write(t, "key.pem", string(pem.EncodeToMemory(&secret)))
}

// A proxied gateway has a proxy in front of it.
type proxied struct {
	*programtest.Program
	base           string // address for clients
	proxy, listens string // addresses of the proxy and of the gateway
	server         *upstreamtest.Server
	boot           string // token for /admin
}

// startBehind starts a gateway for an address, with the settings of docs/server.md.
func startBehind(t *testing.T, base string) *proxied {
	t.Helper()
	g := &proxied{base: base, proxy: local.Addr(t), listens: local.Addr(t)}
	g.server = upstreamtest.New(
		t,
		upstreamtest.Options{
			Tools: []json.RawMessage{
				upstreamtest.Tool("ping", "Answer a ping.", `{"readOnlyHint":true}`, "path"),
			},
		},
	)
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, fmt.Sprintf(`{"mcpServers": {"s": {"url": %q}}}`, g.server.URL))
	access := programtest.Tokens()
	for name, value := range map[string]string{
		"PORTCULLIS_AUTH": "jwt,token", "PORTCULLIS_ISSUER": "https://login.example.com",
		"PORTCULLIS_AUDIENCE": base + "/mcp", "PORTCULLIS_BASE_URL": base,
		"PORTCULLIS_TRUSTED_PROXIES": "1",
	} {
		access.Env[name] = value
	}
	g.Program, g.boot = programtest.StartWith(t, access, dir, "--addr", g.listens), access.Admin
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, g.proxy)
	}
	g.Transport = &http.Transport{
		DialContext:     dial,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	return g
}

// check starts the proxy, and sends the requests of agents and people through it.
func (g *proxied) check(t *testing.T, proxy *exec.Cmd) {
	t.Helper()
	var log local.Buffer
	proxy.Stdout, proxy.Stderr = &log, &log
	proxy.Cancel = func() error { return proxy.Process.Signal(os.Interrupt) }
	require.OK(t, proxy.Start())
	t.Cleanup(func() {
		_ = proxy.Process.Signal(os.Interrupt) // it may have ended
		_ = proxy.Wait()
		if t.Failed() {
			t.Logf("log of the proxy:\n%s", log.String())
		}
	})
	if g.URL != g.base {
		t.Fatalf("the gateway is at %s, want %s", g.URL, g.base)
	}
	local.Until(t, "the proxy answers", func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.base+"/healthz", nil)
		require.OK(t, err)
		res, err := g.Transport.RoundTrip(r)
		if err == nil {
			res.Body.Close()
		}
		return err == nil && res.StatusCode == http.StatusOK
	})
	g.checkMetadata(t)
	agent := "Authorization: Bearer " + g.Token("agent", false)
	long := strings.Repeat("x", 2<<20) // nginx accepts 1 MB by default
	a := g.Send("/mcp", call(`{"name":"s:ping","args":{"path":"`+long+`"}}`), agent)
	if a.Status != http.StatusOK || !strings.Contains(a.Body, "content") {
		t.Errorf("a body of 2 MB: %d %.300s", a.Status, a.Body)
	}
	g.checkStream(t, agent)
	g.checkSignIn(t)
}

// call returns the body of a call that can get progress.
func call(arguments string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call_tool_read",` +
		`"arguments":` + arguments + `,"_meta":{"progressToken":"p"}}}`
}

// checkMetadata follows the challenge of the first request to the metadata.
func (g *proxied) checkMetadata(t *testing.T) {
	t.Helper()
	a := g.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	found := regexp.MustCompile(`resource_metadata="https://[^/]+([^"]+)"`).
		FindStringSubmatch(a.Header.Get("WWW-Authenticate"))
	if a.Status != http.StatusUnauthorized || found == nil {
		t.Fatalf("without a token: %d %s", a.Status, a.Header)
	}
	host, err := url.Parse(g.base)
	require.OK(t, err)
	root := agenttest.Client{T: t, URL: host.Scheme + "://" + host.Host, Transport: g.Transport}
	var metadata struct{ Resource string }
	root.Ask(http.StatusOK, found[1], nil, &metadata)
	if metadata.Resource != g.base+"/mcp" {
		t.Errorf("the metadata are of %s", metadata.Resource)
	}
}

// checkStream checks that the proxy passes an event on while the answer continues.
func (g *proxied) checkStream(t *testing.T, agent string) {
	t.Helper()
	const progress = `{"jsonrpc":"2.0","method":"notifications/progress",` +
		`"params":{"progressToken":%token%,"progress":1}}`
	g.server.FailOn("tools/call", 1, upstreamtest.Says("", progress))
	ctx, cancel := context.WithTimeout(t.Context(), local.Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(
		ctx,
		http.MethodPost,
		g.base+"/mcp",
		strings.NewReader(call(`{"name":"s:ping","args":{"path":"x"}}`)),
	)
	require.OK(t, err)
	r.Header = http.Header{
		"Content-Type":  {"application/json"},
		"Accept":        {"application/json, text/event-stream"},
		"Authorization": {strings.TrimPrefix(agent, "Authorization: ")},
	}
	res, err := g.Transport.RoundTrip(r)
	require.OK(t, err)
	defer res.Body.Close()
	var got strings.Builder
	for buffer := make([]byte, 4096); !strings.Contains(got.String(), "notifications/progress"); {
		n, err := res.Body.Read(buffer)
		if got.Write(buffer[:n]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			t.Fatalf("no progress arrived: %v: %s", err, got.String())
		}
	}
}

// checkSignIn checks that a browser signs in over https.
func (g *proxied) checkSignIn(t *testing.T) {
	t.Helper()
	host, err := url.Parse(g.base)
	require.OK(t, err)
	browser := agenttest.Client{T: t, URL: g.base, Transport: g.Transport}
	page := browser.Send("/admin/tools", "", "Accept: text/html")
	if at := page.Header.Get("Location"); page.Status != http.StatusSeeOther ||
		!strings.Contains(at, "admin/login") {
		t.Errorf("without a session: %d, to %s", page.Status, at)
	}
	a := browser.Send(
		"/admin/login",
		url.Values{"key": {g.boot}}.Encode(),
		"Content-Type: application/x-www-form-urlencoded",
		"Accept: text/html",
		"Origin: https://"+host.Host,
	)
	cookies := a.Cookies()
	if len(cookies) == 0 || cookies[0].Name != "__Host-portcullis" {
		t.Fatalf("sign-in: %d, cookies %v: %s", a.Status, cookies, a.Body)
	}
	cookie := "Cookie: " + cookies[0].Name + "=" + cookies[0].Value
	got := browser.Send("/admin/tools", "", "Accept: text/html", cookie)
	if got.Status != http.StatusOK {
		t.Errorf("after the sign-in: %d", got.Status)
	}
}
