package testclients

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/repo"
)

// remembers stores a value for the session at a server.
func (w *wire) remembers(server, value string) {
	w.t.Helper()
	if end, _ := last(w.call(w.t.Context(), server+"__remember", map[string]any{"value": value})); !strings.Contains(end.text(), "kept") {
		w.t.Errorf("remember answers %s", end.text())
	}
}

// recalls returns the server's text for this client's session: "value, n sessions".
func (w *wire) recalls(server string) string {
	w.t.Helper()
	end, _ := last(w.call(w.t.Context(), server+"__recall", map[string]any{}))
	return end.text()
}

// wantRecall checks that a server returns this client's value and not another client's value.
func (w *wire) wantRecall(server, mine, theirs string) {
	w.t.Helper()
	if got := w.recalls(server); !strings.Contains(got, mine) || strings.Contains(got, theirs) {
		w.t.Errorf("recall on %s answers %s, want %s and not %s", server, got, mine, theirs)
	}
}

// Two agents use servers that store a value for each session, one over HTTP and one as a child of
// the gateway. Each agent gets its own value back, and never the value of the other agent.
func TestAgentsKeepApart(t *testing.T) {
	findNode(t)
	local, remote := Stdio(t)["lanes"].Entry, HTTP(t)["lanes"].Entry
	for _, e := range []map[string]any{local, remote} {
		e["protocol"] = "2025-11-25"
	}
	folder := t.TempDir()
	programtest.WriteConfig(t, folder, Config(t, map[string]Server{"child": {Entry: local}, "remote": {Entry: remote}}, `{"mode": "direct"}`))
	p := programtest.StartWith(t, programtest.Tokens(), folder, "--allow-commands")
	url, ann, bob := p.URL+"/mcp", p.Token("ann", false), p.Token("bob", false)
	for _, server := range []string{"child", "remote"} {
		for name, modern := range map[string]bool{"stateless": true, "handshake": false} {
			t.Run(server+", "+name, func(t *testing.T) {
				anns, bobs := newWire(t, url, ann, modern, `{}`), newWire(t, url, bob, modern, `{}`)
				const ofAnn, ofBob = "the value of Ann", "the value of Bob"
				anns.remembers(server, ofAnn)
				bobs.wantRecall(server, "sessions", ofAnn)
				bobs.remembers(server, ofBob)
				anns.wantRecall(server, ofAnn, ofBob)
				bobs.wantRecall(server, ofBob, ofAnn)
				if !modern && server == "remote" { // a second client of Ann has a separate session
					newWire(t, url, ann, false, `{}`).wantRecall(server, "nothing", ofAnn)
				}
			})
		}
	}
}

// Each instance of the gateway accepts a client's session, and uses the server session that belongs
// to it.
func TestSessionFollowed(t *testing.T) {
	server := Lanes(t)
	stack := lambdatest.NewStack(t, emulator.Start(t), lambdatest.Build(t, repo.Path(""), "mcp", "sync"), map[string]string{
		"PORTCULLIS_AUTH": "none", "PORTCULLIS_SEAL_KEY": strings.Repeat("0f", 32),
	})
	stack.Configure(fmt.Sprintf(`{"mcpServers": {"remote": {"url": %q, "approval": "off", "protocol": "2025-11-25"}}, "gateway": {"mode": "direct"}}`, server))
	stack.Sync(t)
	first, second := frontOf(t, stack, "url"), frontOf(t, stack, "url")
	w := newWire(t, first.URL+"/mcp", "", false, `{}`)
	if w.session == "" {
		t.Fatal("the handshake opened no session")
	}
	other := newWire(t, second.URL+"/mcp", "", false, `{}`)
	w.remembers("remote", "ours")
	other.remembers("remote", "theirs")
	w.url, other.url = other.url, w.url
	w.wantRecall("remote", "ours", "theirs")
	other.wantRecall("remote", "theirs", "ours")
	w.session = w.session[:len(w.session)-2] + "AA"
	r := w.post(t.Context(), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil)
	_ = r.Body.Close()
	if r.StatusCode != http.StatusNotFound {
		t.Errorf("answer to a forged session: %d, want 404", r.StatusCode)
	}
}
