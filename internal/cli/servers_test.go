package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/test/issuertest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// An operator signs the gateway in to a server and out again, once on a folder and once at a
// running gateway. An agent calls the server's tool.
func TestServersSession(t *testing.T) {
	issuer := issuertest.New(t, issuertest.Habits{})
	all := servers(upstreamtest.Fleet(t, map[string][]json.RawMessage{
		"files": {upstreamtest.Tool("get_file", "Read a file.", `{"readOnlyHint":true}`)},
	}, upstreamtest.Options{Front: issuer.Front("read")}))
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, all.config(each(""), ""))
	s := newTerminal(t, map[string]string{dir: "gate", all["files"].URL: "SERVER", osUser(): "ada"})
	browser := browseTo(t)
	s.must(1, "sync", "--dir", dir)
	s.must(0, "servers", "--dir", dir)
	s.must(0, "servers", "files", "--dir", dir)
	s.must(1, "servers", "login", "mail", "--dir", dir)
	s.browse = browser
	s.must(0, "servers", "login", "files", "--dir", dir)
	s.must(0, "servers", "--dir", dir)
	s.must(0, "servers", "files", "--dir", dir)

	p := start(t, dir)
	if got := p.callFile(); !strings.Contains(got, "get_file") {
		t.Errorf("an agent's call answers %s", got)
	}
	s.must(0, "servers", "login", "files", "--dir", dir)
	s.must(0, "servers", "logout", "files", "--dir", dir)
	s.must(0, "servers", "logout", "files", "--dir", dir)
	if got := p.callFile(); !strings.Contains(got, "The call was not carried out") {
		t.Errorf("after the sign-out an agent's call answers %s", got)
	}
	s.browse, s.stdin = nil, "http://127.0.0.1:1/callback?code=x&state=forged\n"
	s.must(1, "servers", "login", "files", "--dir", dir)
	s.stdin = "nonsense\n"
	s.must(1, "servers", "login", "files", "--dir", dir, "--no-browser")
	require.OK(t, p.stop())
	s.check("servers")
	if info, err := os.Stat(filepath.Join(dir, folder.VaultFile)); err != nil ||
		info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v", folder.VaultFile, info, err)
	}
}

// browseTo returns a browser of a person who agrees to everything.
func browseTo(t *testing.T) func(context.Context, string) error {
	return func(_ context.Context, address string) error {
		go func() {
			resp, err := http.Get(address) // it follows the redirect to the command
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("browser: %v, %v", resp, err)
			}
		}()
		return nil
	}
}
