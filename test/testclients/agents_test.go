package testclients

import (
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/programtest"
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
	p.UntilLoaded()
	url, ann, bob := p.URL+"/mcp", p.Token("ann", false), p.Token("bob", false)
	for server, modern := range map[string]bool{"child": true, "remote": false} {
		t.Run(server, func(t *testing.T) {
			anns, bobs := newWire(t, url, ann, modern, `{}`), newWire(t, url, bob, modern, `{}`)
			const ofAnn, ofBob = "the value of Ann", "the value of Bob"
			anns.remembers(server, ofAnn)
			bobs.wantRecall(server, "sessions", ofAnn)
			bobs.remembers(server, ofBob)
			anns.wantRecall(server, ofAnn, ofBob)
			bobs.wantRecall(server, ofBob, ofAnn)
			if !modern { // a second client of Ann has a separate session
				newWire(t, url, ann, false, `{}`).wantRecall(server, "nothing", ofAnn)
			}
		})
	}
}
