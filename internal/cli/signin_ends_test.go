package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/issuertest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A listener is a target of notices.
type listener struct {
	mu   sync.Mutex
	down bool
	got  []string
}

func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	l.got = append(l.got, string(body))
}

// count returns how many notices contain a text.
func (l *listener) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, body := range l.got {
		if strings.Contains(body, text) {
			n++
		}
	}
	return n
}

func (p *program) callFile() string {
	p.T.Helper()
	return p.Call("call_tool_read", map[string]any{"name": "files:get_file", "args": map[string]any{}}).Text
}

// Operators see a required sign-in in the banner, status and doctor. After the issuer ended the
// sign-in, they get one notice and one audit event, and the answers to agents say who can renew it.
func TestSignInEnds(t *testing.T) {
	issuer := issuertest.New(t, issuertest.Habits{})
	s := upstreamtest.New(t, upstreamtest.Options{
		Tools: []json.RawMessage{upstreamtest.Tool("get_file", "Read a file.", `{"readOnlyHint":true}`)}, Front: issuer.Front("read"),
	})
	room := new(listener)
	at := httptest.NewServer(room)
	defer at.Close()
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, fmt.Sprintf(
		`{"mcpServers": {"files": {"url": %q, "approval": "off"}}, "notify": [{"type": "slack", "url": %q}]}`, s.URL, at.URL))
	p := start(t, dir)
	term := newTerminal(t, nil)
	term.browse = browseTo(t)
	says := func(what, got string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s does not say %q:\n%s", what, w, got)
			}
		}
	}
	const required = "MCP server 'files' requires an OAuth sign-in. Press \"Sign in\" on its page, or run portcullis servers login files."
	says("the banner", p.out.String(), required)
	says("status", term.must(0, "status", "--dir", dir), required)
	says("doctor", term.must(1, "doctor", "--dir", dir), "server_sign_in_required", "run: portcullis servers login files --dir")
	term.must(0, "servers", "login", "files", "--dir", dir)
	if _, codes := examine(t, "--dir", dir, "--probe"); strings.Contains(strings.Join(codes, " "), "server_") {
		t.Errorf("doctor --probe of a server with a sign-in finds %q", codes)
	}
	says("a call", p.callFile(), "get_file")

	issuer.EndAll()
	says("a call after the end", p.callFile(),
		"The gateway's sign-in at MCP server 'files' has ended.", "the gateway's operator must sign in again", "The call was not carried out.")
	p.Ask(http.StatusOK, "/admin/sync", `{}`, nil)
	p.Ask(http.StatusOK, "/admin/sync", `{}`, nil)
	local.Until(t, "the notice is sent", func() bool { return room.count("has ended") > 0 })
	if room.count("sign-in at server `files` has ended: `credential_expired`") != 1 || room.count("no longer loads") != 0 {
		t.Errorf("told %q", room.got)
	}
	says("search", p.Call("retrieve_tools", map[string]any{"query": "read a file"}).Text, "files:get_file")
	says("upstream_servers", p.Call("upstream_servers", map[string]any{}).Text, `"denied"`, "the gateway's operator must sign in again")
	says("doctor", term.must(1, "doctor", "--dir", dir), "server_credential_expired", "run: portcullis servers login files --dir")
	log := term.must(0, "audit", "--dir", dir)
	if strings.Count(log, "connection_ended") != 1 || !strings.Contains(log, "server_sign_in") {
		t.Errorf("the audit contains\n%s", log)
	}
	require.OK(t, p.stop())
	backup := term.must(0, "backup", "--dir", dir)
	says("backup", backup+term.text.String(), "not the key that opens them", folder.VaultFile)
	require.OK(t, os.Remove(filepath.Join(dir, folder.VaultFile)))
	says("doctor without the key", term.must(1, "doctor", "--dir", dir), "vault_key_missing")
	require.OK(t, os.WriteFile(filepath.Join(dir, folder.VaultFile), []byte("x"), 0o644))
	says("doctor with an open key", term.must(1, "doctor", "--dir", dir), "vault_key_exposed")
}

// A server lists its tools without a sign-in, but refuses calls. After the first refused call,
// operators see that the server needs a sign-in. After the sign-in, they no longer see this.
func TestFreeListsNeedSignIn(t *testing.T) {
	issuer := issuertest.New(t, issuertest.Habits{})
	closed := issuer.Front("write")
	s := upstreamtest.New(t, upstreamtest.Options{
		Tools: []json.RawMessage{upstreamtest.Tool("get_file", "Read a file.", `{"readOnlyHint":true}`)},
		Front: func(next http.Handler) http.Handler {
			front := closed(next)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") == "" && !isCall(r) && !strings.Contains(r.URL.Path, "well-known") {
					next.ServeHTTP(w, r)
					return
				}
				front.ServeHTTP(w, r)
			})
		},
	})
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, fmt.Sprintf(`{"mcpServers": {"files": {"url": %q, "approval": "off"}}}`, s.URL))
	p := start(t, dir)
	term := newTerminal(t, nil)
	term.browse = browseTo(t)
	seen := func() (o outcome.Outcome) {
		t.Helper()
		var server struct {
			Outcome struct{ Status, Reason string }
		}
		p.Ask(http.StatusOK, "/admin/servers/files", nil, &server)
		return outcome.Outcome{Status: outcome.Status(server.Outcome.Status), Reason: server.Outcome.Reason}
	}
	if o := seen(); o.Status != outcome.Available || o.Reason != "" {
		t.Errorf("before the first call: %+v", o)
	}
	if got := p.callFile(); !strings.Contains(got, "the gateway's operator must give the gateway access. The call was not carried out.") {
		t.Errorf("a call answers %s", got)
	}
	if o := seen(); o.Status != outcome.Denied || o.Reason != outcome.ReasonSignInRequired {
		t.Errorf("after the first call: %+v", o)
	}
	if got := term.must(0, "servers", "--dir", dir); !strings.Contains(got, "required") {
		t.Errorf("servers says %s", got)
	}
	term.must(0, "servers", "login", "files", "--dir", dir)
	if asked := issuer.Asked[0].Get("scope"); !strings.Contains(asked, "write") || strings.Contains(asked, "read") {
		t.Errorf("the sign-in requests the scopes %q, want write, which the refused call needs",
			asked)
	}
	if got := p.callFile(); !strings.Contains(got, "get_file") {
		t.Errorf("after the sign-in a call answers %s", got)
	}
	if o := seen(); o.Status != outcome.Available || o.Reason != "" {
		t.Errorf("after the sign-in: %+v", o)
	}
}

// isCall reports whether a request calls a tool, and keeps its body.
func isCall(r *http.Request) bool {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	return strings.Contains(string(body), `"tools/call"`)
}
