package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/internal/cli/doctor"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/stdiotest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// examine returns the JSON output of portcullis doctor.
func examine(t *testing.T, args ...string) (x examination, codes []string) {
	t.Helper()
	s := newTerminal(t, nil)
	out, _ := s.run(append([]string{"doctor", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &x); err != nil {
		t.Fatalf("%v:\n%s", err, s.text.String())
	}
	for _, f := range x.Findings {
		codes = append(codes, f.Code)
		if f.Cause == "" || f.Do+f.Run == "" || !slices.Contains(doctor.Codes(), f.Code) {
			t.Errorf("%+v lacks a cause or a remedy, or has an unknown code", f)
		}
	}
	return x, codes
}

func TestDoctorSession(t *testing.T) {
	_, config := ping(t)
	dir := t.TempDir()
	s := newTerminal(t, map[string]string{dir: "DIR"})
	s.must(1, "doctor", "--dir", dir)
	programtest.WriteConfig(t, dir, config(""))
	s.must(0, "doctor", "--dir", dir)
	p := start(t, dir)
	s.must(0, "doctor", "--dir", dir)
	s.must(0, "doctor", "--dir", dir, "--probe")
	s.must(0, "doctor", "--url", p.URL)
	require.OK(t, p.stop())

	require.OK(t, os.Mkdir(filepath.Join(dir, ".git"), 0o700))
	require.OK(t, os.Chmod(filepath.Join(dir, folder.ApprovalsFile), 0o644))
	require.OK(t, os.Chmod(filepath.Join(dir, folder.KeyFile), 0o640))
	require.OK(t, folder.WriteInfo(dir, folder.Info{Address: "http://127.0.0.1:1", PID: 1 << 30}))
	old := filepath.Join(dir, "approvals.db.bak-20260101T000000Z")
	require.OK(t, os.WriteFile(old, nil, 0o600))
	require.OK(t, os.Chtimes(old, time.Now(), time.Now().AddDate(0, -2, 0)))
	programtest.WriteConfig(t, dir, `{
  "mcpServers": {
    "s": {"url": "https://s.example/mcp", "headers": {"Authorization": "Bearer ${env:S_TOKEN}"}},
    "t": {"url": "https://t.example/mcp", "headers": {"Authorization": "${ssm:/t}"}, "disabled_tools": ["nope"]}
  }
}`)
	s.must(1, "doctor", "--dir", dir)
	s.must(1, "doctor", "--dir", dir, "--fix")
	s.env["S_TOKEN"] = "x"
	require.OK(t, os.Remove(filepath.Join(dir, folder.KeyFile)))
	programtest.WriteConfig(t, dir, `{"mcpServers": {"s": {"urll": "https://s.example/mcp"}}}`)
	programtest.WritePolicy(t, dir, "forbid (")
	s.must(1, "doctor", "--dir", dir)
	require.OK(t, os.WriteFile(filepath.Join(dir, folder.ApprovalsFile), []byte("no database"), 0o600))
	programtest.WriteConfig(t, dir, config(""))
	require.OK(t, os.Remove(filepath.Join(dir, "config", "policy.cedar")))
	s.must(1, "doctor", "--dir", dir)

	s.must(1, "doctor", "--url", "http://127.0.0.1:1")
	s.must(1, "doctor", "--url", "gate.example.com")
	s.must(2, "doctor", "--url", "http://127.0.0.1:1", "--probe")
	s.must(2, "doctor", "--url", "http://127.0.0.1:1", "--fix")
	s.must(2, "doctor", "--allow-commands")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.runIn(ended, "doctor", "--dir", dir, "--probe")
	s.check("doctor")
}

// Each kind of server problem has its code.
func TestDoctorProbe(t *testing.T) {
	t.Parallel()
	failing := func(f upstreamtest.Fault) string {
		s := upstreamtest.New(t, upstreamtest.Options{})
		s.Fail(f)
		return s.URL
	}
	one := []json.RawMessage{upstreamtest.Tool("ping", "Answer a ping.", "")}
	gone := upstreamtest.New(t, upstreamtest.Options{})
	gone.Refuse()
	odd := upstreamtest.New(t, upstreamtest.Options{Tools: one, Front: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
			next.ServeHTTP(w, r)
		})
	}})
	expired := httptest.NewUnstartedServer(http.NotFoundHandler())
	expired.TLS = &tls.Config{Certificates: []tls.Certificate{outOfDate(t)}}
	expired.StartTLS()
	defer expired.Close()
	servers := map[string]struct{ entry, code string }{
		"well":      {upstreamtest.New(t, upstreamtest.Options{Tools: one}).URL, ""},
		"empty":     {upstreamtest.New(t, upstreamtest.Options{}).URL, "server_no_tools"},
		"refused":   {gone.URL, "server_refused"},
		"locked":    {failing(upstreamtest.Status(401, "", "WWW-Authenticate", `Bearer realm="x"`)), "server_sign_in_required"},
		"forbidden": {failing(upstreamtest.Status(403, "no")), "server_forbidden"},
		"path":      {failing(upstreamtest.Status(404, "not here")), "server_not_found"},
		"page":      {failing(upstreamtest.HTML()), "server_not_mcp"},
		"broken":    {failing(upstreamtest.Status(500, "oops")), "server_http_5xx"},
		"elsewhere": {failing(upstreamtest.Redirect("https://x.example/mcp")), "server_redirect"},
		"expired":   {expired.URL, "server_tls"},
		"plain":     {strings.Replace(gone.URL, "http://127.0.0.1", "http://10.255.255.1", 1), "server_config"},
		"skewed":    {odd.URL, "clock_skew"},
		"slow":      {failing(upstreamtest.Hang()) + `", "timeout": "500ms`, "server_timeout"},
		"secret":    {gone.URL + `", "headers": {"Authorization": "${env:NOPE}"}, "approval": "off`, "server_config"},
		"nowhere":   {"https://nowhere.invalid/mcp", "server_dns"},
	}
	var entries []string
	for name, s := range servers {
		entries = append(entries, fmt.Sprintf(`%q: {"url": "%s"}`, name, s.entry))
	}
	entries = append(entries, `"program": {"command": "portcullis-no-such-program"}`)
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, `{"mcpServers": {`+strings.Join(entries, ", ")+`}}`)
	x, _ := examine(t, "--dir", dir, "--probe")
	got := map[string][]string{}
	for _, f := range x.Findings {
		if name, ok := strings.CutPrefix(f.About, "server "); ok {
			got[strings.Trim(name, `"`)] = append(got[strings.Trim(name, `"`)], f.Code)
			t.Logf("%-9s %s: %s", f.Severity, f.Code, f.Cause)
		}
	}
	servers["program"] = struct{ entry, code string }{"", "server_needs_command"}
	for name, s := range servers {
		if name == "nowhere" && slices.Equal(got[name], []string{"server_dns_timeout"}) {
			continue // no name server is reachable here
		}
		if want := strings.Fields(s.code); !slices.Equal(got[name], want) {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if x.OK || len(x.Asked) != len(servers) {
		t.Errorf("ok %v, %d asked of %d", x.OK, len(x.Asked), len(servers))
	}
}

// The finding about a program names the problem before it quotes the program's last output.
func TestDoctorOfProgram(t *testing.T) {
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, `{"mcpServers": {"npx": {"command": "sh", "args": ["-c", "echo npm error code SELF_SIGNED_CERT_IN_CHAIN >&2; exit 1"]}}}`)
	out, codes := examine(t, "--dir", dir, "--probe", "--allow-commands")
	i := slices.IndexFunc(out.Findings, func(f doctor.Finding) bool { return f.Code == "server_exited" })
	if i < 0 || !strings.Contains(out.Findings[i].Cause, "Cause: The program does not trust a certificate, for example of a proxy with its own CA: start the gateway with NODE_EXTRA_CA_CERTS") {
		t.Errorf("%q: %+v", codes, out.Findings)
	}
}

// outOfDate returns a certificate that ended yesterday.
func outOfDate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.OK(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().AddDate(0, -1, 0), NotAfter: time.Now().AddDate(0, 0, -1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	require.OK(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// The doctor finds these problems without a credential: an address that differs from the gateway's
// own, a wrong clock, and a server that is not a gateway.
func TestDoctorFromOutside(t *testing.T) {
	var resource, date, health string
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	defer s.Close()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if date != "" {
			w.Header().Set("Date", date)
		}
		fmt.Fprint(w, health)
	})
	mux.HandleFunc("POST /mcp", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the doctor sent a credential to an address that may not be a gateway's")
		}
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+s.URL+`/meta", scope="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	mux.HandleFunc("GET /meta", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"resource": %q}`, resource) })
	mux.HandleFunc("GET /admin/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"detail": "viewers alone"}`)
	})
	for _, tt := range []struct {
		name, resource, date, health string
		want                         []string
	}{
		{"no problem except a missing credential", s.URL + "/mcp", "", `{"status":"ok"}`, []string{"credential"}},
		{"another address", "https://gate.example.com/mcp\x1b[2J", "", `{"status":"ok"}`, []string{"base_url_differs", "credential"}},
		{"no metadata", "", "", `{"status":"ok"}`, []string{"base_url_differs", "credential"}},
		{"a clock", s.URL + "/mcp", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), `{"status":"ok"}`, []string{"clock_skew", "credential"}},
		{"another program", s.URL + "/mcp", "", `<h1>It works!</h1>`, []string{"gateway_foreign"}},
	} {
		resource, date, health = tt.resource, tt.date, tt.health
		x, codes := examine(t, "--url", s.URL+"/mcp")
		if !slices.Equal(codes, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, codes, tt.want)
		}
		for _, f := range x.Findings {
			if strings.Contains(f.Cause, "\x1b") {
				t.Errorf("%s: a terminal obeys %q", tt.name, f.Cause)
			}
		}
	}
}

// The doctor reports each problem of a file once. It also reports once that no sync has succeeded.
func TestDoctorHealth(t *testing.T) {
	_, config := ping(t)
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, config(""))
	programtest.WritePolicy(t, dir, `forbid (principal, action, resource) when { resource.name == "other" };`)
	require.OK(t, start(t, dir).stop())
	about := func() (out []string) {
		x, _ := examine(t, "--dir", dir)
		for _, f := range x.Findings {
			if f.Code != "nothing_denied" {
				out = append(out, f.Code+" "+filepath.Base(f.About))
			}
			if f.About == "catalog_missing" && !strings.Contains(f.Do, "portcullis sync") {
				t.Errorf("no gateway runs here, so want a hint to run portcullis sync: %s", f.Do)
			}
		}
		return out
	}
	require.OK(t, os.Remove(filepath.Join(dir, "config", "policy.cedar")))
	if got, want := about(), []string{"policy_warning policy.cedar", "policy_warning policy.cedar:1"}; !slices.Equal(got, want) {
		t.Errorf("without the policy: %q, want %q", got, want)
	}
	require.OK(t, os.RemoveAll(filepath.Join(dir, "catalog")))
	programtest.WritePolicy(t, dir, "")
	if got, want := about(), []string{"unhealthy catalog_missing"}; !slices.Equal(got, want) {
		t.Errorf("without a catalog: %q, want %q", got, want)
	}
}

// A server that is a program runs as a child of the gateway, so the gateway reports its state. The
// doctor starts no program.
func TestDoctorAsksGatewayAboutPrograms(t *testing.T) {
	path, env := stdiotest.Program(t, stdiotest.Legacy)
	entries, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"prog": map[string]any{"command": path, "env": env}, "broken": map[string]any{"command": "portcullis-no-such-program"},
	}})
	require.OK(t, err)
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, string(entries))
	p := start(t, dir, "--allow-commands")
	x, codes := examine(t, "--dir", dir, "--probe")
	status := map[string]outcome.Status{}
	for _, s := range x.Asked {
		if status[s.Server] = s.Status; s.Gateway != p.URL {
			t.Errorf("%s: the state comes from %q, want it from the gateway", s.Server, s.Gateway)
		}
		if s.Server == "prog" && s.Tools == 0 {
			t.Error("the program has no tools")
		}
	}
	want := map[string]outcome.Status{"prog": outcome.Available, "broken": outcome.Permanent}
	if diff := cmp.Diff(want, status); diff != "" || slices.Contains(codes, "server_needs_command") || !slices.Contains(codes, "server_command") {
		t.Errorf("%s; found %q", diff, codes)
	}
	require.OK(t, p.stop())
	if _, codes := examine(t, "--dir", dir, "--probe"); !slices.Contains(codes, "server_needs_command") {
		t.Errorf("without a gateway: %q", codes)
	}
}

// In direct mode the client adds its own prefix to tool names.
func TestDoctorLongNames(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{upstreamtest.Tool(strings.Repeat("long_", 9), "Long.", ""), upstreamtest.Tool("short", "Short.", "")}})
	for mode, want := range map[string]bool{"direct": true, "search": false} {
		dir := t.TempDir()
		programtest.WriteConfig(t, dir, fmt.Sprintf(`{"mcpServers": {"files": {"url": %q}}, "gateway": {"mode": %q}}`, s.URL, mode))
		require.OK(t, start(t, dir).stop())
		x, codes := examine(t, "--dir", dir)
		if slices.Contains(codes, "name_long") != want {
			t.Errorf("%s: %q", mode, codes)
		}
		if i := slices.Index(codes, "name_long"); i >= 0 && (strings.Contains(x.Findings[i].Cause, "short") || x.Findings[i].About != "1 tool") {
			t.Errorf("%+v", x.Findings[i])
		}
	}
}

// The operator sees that a server requires a sign-in, and its issuer, even if no gateway runs.
// Agents do not see the issuer.
func TestSignInRequired(t *testing.T) {
	var s *upstreamtest.Server
	s = upstreamtest.New(t, upstreamtest.Options{Front: func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				fmt.Fprintf(w, `{"resource": %q, "authorization_servers": ["https://login.example"], "scopes_supported": ["read"]}`, s.URL)
				return
			}
			w.Header().Set("WWW-Authenticate", "Bearer resource_metadata="+strings.TrimSuffix(s.URL, "/mcp")+"/meta")
			w.WriteHeader(http.StatusUnauthorized)
		})
	}})
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, fmt.Sprintf(`{"mcpServers": {"notion": {"url": %q}}}`, s.URL))
	p := start(t, dir)
	const want = "MCP server 'notion' requires an OAuth sign-in. Press \"Sign in\" on its page, or run portcullis servers login notion. Issuer: https://login.example. Scopes: read."
	doctorSays := func(args ...string) {
		t.Helper()
		x, codes := examine(t, args...)
		i := slices.Index(codes, "server_sign_in_required")
		if i < 0 || slices.Contains(codes, "unhealthy") {
			t.Fatalf("doctor %q finds %q", args, codes)
		}
		if cause := x.Findings[i].Cause; !strings.HasPrefix(cause, want) || !strings.Contains(cause, "; it wants Bearer resource_metadata=") {
			t.Errorf("doctor %q says %s", args, cause)
		}
	}
	says := func(what, got string) {
		t.Helper()
		if !strings.Contains(got, want) {
			t.Errorf("%s says\n%s", what, got)
		}
	}
	doctorSays("--dir", dir)
	doctorSays("--dir", dir, "--probe")
	says("status", newTerminal(t, nil).must(0, "status", "--dir", dir))
	var server struct{ Outcome struct{ Message string } }
	p.Ask(http.StatusOK, "/admin/servers/notion", nil, &server) // the console shows it
	says("the server's page", server.Outcome.Message)
	if got := p.Call("upstream_servers", map[string]any{}).Text; !strings.Contains(got, "the gateway's operator must give the gateway access") || strings.Contains(got, "login.example") {
		t.Errorf("an agent gets %s", got)
	}
	require.OK(t, p.stop())
	doctorSays("--dir", dir)
}
