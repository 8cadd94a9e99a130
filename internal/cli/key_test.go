package cli

import (
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestAdminKey(t *testing.T) {
	open := func(t *testing.T, dir string) (secret.Text, string, error) {
		t.Helper()
		log := &local.Buffer{}
		key, err := folder.AdminKey(t.Context(), dir, slog.New(slog.NewTextHandler(log, nil)))
		return key, log.String(), err
	}
	first := func(t *testing.T) (dir, path string, key secret.Text) {
		t.Helper()
		dir = t.TempDir()
		key, _, err := open(t, dir)
		require.OK(t, err)
		return dir, filepath.Join(dir, folder.KeyFile), key
	}
	t.Run("is made once, for its user alone", func(t *testing.T) {
		dir, path, key := first(t)
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o600 {
			t.Fatalf("%v, %v", info, err)
		}
		again, log, err := open(t, dir)
		if err != nil || !again.Equal(key) || log != "" {
			t.Errorf("the next start: error %v, same key %v, log %s", err, again.Equal(key), log)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
			t.Errorf("the folder holds %v, %v", files, err)
		}
	})
	t.Run("that others could read is replaced, with a warning", func(t *testing.T) {
		for _, mode := range []fs.FileMode{0o640, 0o604, 0o660} {
			dir, path, key := first(t)
			require.OK(t, os.Chmod(path, mode))
			again, log, err := open(t, dir)
			info, statErr := os.Stat(path)
			if err != nil || statErr != nil || again.Equal(key) || info.Mode() != 0o600 || !strings.Contains(log, "replaced") || strings.Contains(log, again.Reveal()) {
				t.Errorf("mode %o: %v, mode now %v, the same key %v, log %s", mode, err, info.Mode(), again.Equal(key), log)
			}
		}
	})
	t.Run("that is damaged is not used", func(t *testing.T) {
		for _, text := range []string{"", "pca_", "\n", token.New().Reveal()} {
			dir, path, _ := first(t)
			require.OK(t, os.WriteFile(path, []byte(text), 0o600))
			if _, _, err := open(t, dir); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "remove it") {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
	t.Run("that is a link is refused", func(t *testing.T) {
		_, elsewhere, _ := first(t)
		dir := t.TempDir()
		require.OK(t, os.Symlink(elsewhere, filepath.Join(dir, folder.KeyFile)))
		if _, _, err := open(t, dir); err == nil {
			t.Error("the link was followed")
		}
	})
}

// /admin needs the key, because on a laptop any program that can send HTTP may be the agent.
func TestAdminNeedsTheKey(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir, "--demo")
	const tool = "/admin/tools/tickets/assign_ticket"
	approve := `{"hash":"` + strings.Repeat("0", 64) + `"}`
	for _, path := range []string{"/admin", tool, "/admin/tools", "/admin/audit", "/admin/servers", "/admin/openapi.json", "/admin/none"} {
		if r := p.stranger().Send(path, ""); r.Status != http.StatusUnauthorized || !strings.HasPrefix(r.Header.Get("WWW-Authenticate"), "Bearer realm=") {
			t.Errorf("GET %s = %d %q", path, r.Status, r.Header.Get("WWW-Authenticate"))
		}
	}
	for name, header := range map[string][]string{
		"curl": nil, "another key": {"Authorization: Bearer " + token.NewAdmin().Reveal()}, "a made-up session": {"Cookie: portcullis=" + token.Random()},
	} {
		for _, path := range []string{tool + "/approve", tool + "/disable", tool + "/enable", "/admin/tools", "/admin/sync", "/admin/tokens"} {
			if r := p.stranger().Send(path, approve, header...); r.Status != http.StatusUnauthorized {
				t.Errorf("%s: POST %s = %d", name, path, r.Status)
			}
			if r := p.stranger().Send(path, approve, append(header, "Origin: https://evil.example.com")...); r.Status != http.StatusForbidden {
				t.Errorf("%s from another origin: POST %s = %d", name, path, r.Status)
			}
		}
	}
	r := p.stranger().Send(tool, "", "Accept: text/html")
	if to := r.Header.Get("Location"); r.Status != http.StatusSeeOther || to != "../../../admin/login?next=tools%2Ftickets%2Fassign_ticket" {
		t.Errorf("a link to the console answers %d to %q", r.Status, to)
	}
	for _, path := range []string{"/admin/login", "/healthz"} {
		if r := p.stranger().Send(path, ""); r.Status != http.StatusOK {
			t.Errorf("%s = %d, want 200 without a key", path, r.Status)
		}
	}
}

func TestSignInLink(t *testing.T) {
	p := start(t, t.TempDir(), "--actor", "kim")
	link, err := url.Parse(p.link)
	if err != nil || !strings.HasPrefix(p.link, p.URL+"/admin/login?code=") {
		t.Fatalf("the program printed %q, %v", p.link, err)
	}
	jar, err := cookiejar.New(nil)
	require.OK(t, err)
	client := http.Client{Jar: jar}
	resp, err := client.PostForm(p.URL+"/admin/login", url.Values{"code": {link.Query().Get("code")}, "next": {"servers"}})
	require.OK(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Request.URL.Path != "/admin/servers" {
		t.Errorf("the link leads to %d at %s", resp.StatusCode, resp.Request.URL)
	}
	again, err := http.PostForm(p.URL+"/admin/login", link.Query())
	require.OK(t, err)
	again.Body.Close()
	if again.StatusCode != http.StatusUnauthorized {
		t.Errorf("the second use of the link: %d, want 401", again.StatusCode)
	}
	for name, path := range map[string]string{"the agents' address": "/mcp", "health": "/healthz"} {
		u, err := url.Parse(p.URL + path)
		require.OK(t, err)
		if sent := jar.Cookies(u); len(sent) > 0 {
			t.Errorf("the session is sent to %s", name)
		}
	}
	for name, secret := range map[string]string{"code": link.Query().Get("code"), "key": p.Admin} {
		if len(secret) < 43 || strings.Contains(p.log.String(), secret) {
			t.Errorf("the %s is in the log", name)
		}
	}
}

func TestAdminKeyBeyondLoopback(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1:8080": true, "[::1]:8080": true, "0.0.0.0:8080": false, "[::]:8080": false, "192.0.2.1:8080": false} {
		dir := t.TempDir()
		a := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))
		for auth, want := range map[string]bool{"none": want, "iam": false} {
			s, err := folder.Settings(func(name string) string { return map[string]string{"PORTCULLIS_AUTH": auth}[name] }, a)
			require.OK(t, err)
			owner, err := serveCmd{Dir: dir, Actor: "kim"}.owner(t.Context(), s, a, slog.New(slog.DiscardHandler))
			if err != nil || (owner != nil) != want {
				t.Errorf("%s with %s: owner %v, %v", addr, auth, owner != nil, err)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, folder.KeyFile)); (err == nil) != want {
			t.Errorf("%s: admin.key: %v", addr, err)
		}
	}
}

// If nobody can use /admin, no message has a link to it.
func TestBannerWhereAdminIsClosed(t *testing.T) {
	a := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:8080"))
	for auth, closed := range map[string]bool{"none": true, "iam": false} {
		s, err := folder.Settings(func(name string) string { return map[string]string{"PORTCULLIS_AUTH": auth}[name] }, a)
		require.OK(t, err)
		var text strings.Builder
		b := newBanner(&text, boot.New(s, boot.Stores{}, boot.Options{}), a, serveCmd{Dir: "DIR"}, nil)
		b.writeAddresses(&text, state.Health{})
		b.writeNext(&text, "2 tools")
		if says := strings.Contains(text.String(), "/admin is closed: ") && strings.Contains(text.String(), "127.0.0.1:8080") &&
			strings.Contains(text.String(), "while it is closed"); says != closed {
			t.Errorf("%s: the banner says that /admin is closed: %v, want %v:\n%s",
				auth, says, closed, text.String())
		}
		if leads := strings.Contains(text.String(), "192.0.2.1:8080/admin"); leads == closed {
			t.Errorf("%s: the banner has a link to /admin: %v:\n%s", auth, leads, text.String())
		}
	}
}

func TestEndpointsInABrowser(t *testing.T) {
	p := start(t, t.TempDir())
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	if r := p.stranger().Send("/", "", "Accept: "+browser); r.Status != http.StatusFound || r.Header.Get("Location") != "./admin" {
		t.Errorf("/ = %d to %q", r.Status, r.Header.Get("Location"))
	}
	for accept, want := range map[string]string{browser: "text/plain; charset=utf-8", "text/event-stream": "application/json", "": "application/json"} {
		for _, path := range []string{"/mcp", "/mcp/readonly"} {
			r := p.stranger().Send(path, "", "Accept: "+accept)
			if r.Status != http.StatusMethodNotAllowed || !strings.HasPrefix(r.Header.Get("Allow"), http.MethodPost) || r.Header.Get("Content-Type") != want {
				t.Errorf("GET %s as %q = %d %v", path, accept, r.Status, r.Header)
			}
		}
	}
}
