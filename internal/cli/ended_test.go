package cli

import (
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A session that its client ended stays ended after a restart; other sessions continue.
func TestSessionDeleteOutlivesARestart(t *testing.T) {
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, `{"mcpServers": {}}`)
	env := map[string]string{"PORTCULLIS_AUTH": "none"}
	p := startWith(t, env, dir)
	send := func(method, session, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, p.URL+"/mcp", strings.NewReader(body))
		require.OK(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		answer, err := http.DefaultClient.Do(r)
		require.OK(t, err)
		require.OK(t, answer.Body.Close())
		return answer
	}
	begin := func() string {
		return send(http.MethodPost, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`).Header.Get("Mcp-Session-Id")
	}
	ended, other := begin(), begin()
	if got := send(http.MethodDelete, ended, "").StatusCode; got != http.StatusNoContent {
		t.Fatalf("DELETE = %d", got)
	}
	require.OK(t, p.stop())
	p = startWith(t, env, dir)
	for session, want := range map[string]int{ended: http.StatusNotFound, other: http.StatusOK} {
		if got := send(http.MethodPost, session, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`).StatusCode; got != want {
			t.Errorf("after a restart tools/list = %d, want %d", got, want)
		}
	}
}
