package testclients

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// fetched returns the commands of servers from their documentation. npx and uvx download these
// servers first.
func fetched(folder string) map[string][]string {
	npx := func(name string, args ...string) []string { return append([]string{"npx", "-y", name}, args...) }
	return map[string][]string{
		"everything": npx("@modelcontextprotocol/server-everything@2026.8.31"),
		"files":      npx("@modelcontextprotocol/server-filesystem@2026.8.31", folder),
		"memory":     npx("@modelcontextprotocol/server-memory@2026.8.31"),
		"thinking":   npx("@modelcontextprotocol/server-sequential-thinking@2026.8.31"),
		"context7":   npx("@upstash/context7-mcp@4.1.1"),
		"time":       {"uvx", "mcp-server-time@2026.10.19", "--local-timezone", "UTC"},
		"git":        {"uvx", "mcp-server-git@2026.10.19"},
		"fetch":      {"uvx", "mcp-server-fetch@2026.10.24"},
	}
}

// installUV installs uv, and returns a PATH with uv and the Python that uv must use.
func installUV(t *testing.T) string {
	t.Helper()
	python, to := findPython(t), t.TempDir()
	out, err := exec.CommandContext(t.Context(), python, "-m", "pip", "install", "--quiet", "--target", to, "uv==0.13.9").CombinedOutput()
	if err != nil {
		t.Fatalf("pip install uv: %v\n%s", err, out)
	}
	return strings.Join([]string{filepath.Join(to, "bin"), filepath.Dir(python), os.Getenv("PATH")}, string(os.PathListSeparator))
}

// Servers of npm and PyPI start behind a proxy with a login and its own CA, with empty caches and
// without settings for the proxy. A server with a slow start also starts. In the small lane its
// start takes longer than a sync waits, and in the full lane it takes 90 s.
func TestBehindProxy(t *testing.T) {
	if lanes == "" {
		t.Skip("fetches 8 servers: make lanes")
	}
	node, slow := findNode(t), "20"
	if lanes == "full" {
		slow = "90"
	}
	gateway, proxy, folder, home := programtest.Build(t), newInterceptor(t), t.TempDir(), t.TempDir()
	t.Setenv("PATH", installUV(t))
	for _, name := range []string{"SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "NO_PROXY", "no_proxy", "http_proxy", "https_proxy"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", home) // contains the caches of npm and uv
	t.Setenv("HTTPS_PROXY", proxy.URL)
	servers := map[string]any{}
	for name, words := range fetched(folder) {
		servers[name] = entry(words[0], words[1:]...)
	}
	servers["slow"] = entry("sh", "-c", "sleep "+slow+`; exec "$0" "$@"`, node, filepath.Join(dir(), "node_modules/@modelcontextprotocol/server-everything/dist/index.js"), "stdio")
	passed := []string{"npm_config_fetch_retries", "UV_HTTP_RETRIES"}
	config, err := json.Marshal(map[string]any{"mcpServers": servers, "gateway": map[string]any{"programs": map[string]any{"env": passed}}})
	require.OK(t, err)
	programtest.WriteConfig(t, folder, string(config))
	t.Chdir(folder) // npx prefers packages in the folder of this test

	trusts := []string{"NODE_EXTRA_CA_CERTS", "npm_config_cafile", "SSL_CERT_FILE"} // remove all: an npmrc may name another cafile
	for _, name := range trusts {
		t.Setenv(name, "")
	}
	for _, name := range passed { // without this setting npm waits for over a minute
		t.Setenv(name, "0")
	}
	doctor, isNamed := "", false
	for range 4 { // on a slow machine doctor stops before the servers end
		doctor = shown(t, gateway, "doctor", "--probe", "--allow-commands", "--dir", folder)
		if isNamed = strings.Contains(doctor, "The program does not trust a certificate"); isNamed {
			break
		}
	}
	if t.Logf("without the CA:\n%s", doctor); !isNamed {
		t.Error("doctor does not report that the program does not trust a certificate")
	}

	for _, name := range trusts {
		t.Setenv(name, proxy.CA)
	}
	for _, name := range passed {
		t.Setenv(name, "")
	}
	p := programtest.Start(t, folder, "--allow-commands")
	t.Logf("after the first sync:\n%s", shown(t, gateway, "status", "--dir", folder))
	if s := known(p)["slow"]; s.Outcome.Reason != outcome.ReasonStarting || !strings.Contains(s.Outcome.Message, "has been starting for ") {
		t.Errorf("outcome of the slow server: %+v", s.Outcome)
	}
	for end := time.Now().Add(6 * time.Minute); ; time.Sleep(time.Second) {
		waiting := ""
		for name, s := range known(p) {
			if s.Outcome.Status != string(outcome.Available) {
				waiting += fmt.Sprintf("%s: %s %s\n", name, s.Outcome.Message, s.Outcome.Error)
			}
		}
		if waiting == "" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("not available:\n%s", waiting)
		}
	}
	status := shown(t, gateway, "status", "--dir", folder)
	t.Logf("at the end:\n%s", status)
	for _, host := range []string{"registry.npmjs.org", "pypi.org"} {
		if n := proxy.requests(host); n == 0 {
			t.Errorf("the proxy saw no request for %s", host)
		}
	}
	if strings.Contains(status+doctor+p.Log.String(), proxyPassword) {
		t.Error("the output contains the password of the proxy")
	}
}

// shown returns the output of a command, and ignores its exit code.
func shown(t *testing.T, gateway string, args ...string) string {
	t.Helper()
	out, _ := exec.CommandContext(t.Context(), gateway, args...).CombinedOutput()
	return string(out)
}
