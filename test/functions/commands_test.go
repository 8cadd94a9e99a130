package functions_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A config in a bucket never starts a program, no matter who wrote it. upstream_servers shows the
// reason for such a server, and the other servers work.
func (g suite) startsNoProgram(t *testing.T) {
	w := g.fixture(t)
	trace := filepath.Join(t.TempDir(), "it-ran")
	w.Configure(`{"mcpServers":{
		"laptop":{"type":"stdio","command":"/bin/sh","args":["-c","touch ` + trace + `"],"env":{"LEVEL":"debug"}},
		"deepwiki":{"url":"` + w.wiki.URL + `"}}}`)
	w.Sync(t)
	f := w.Start(t, "mcp")
	ask := func(tool, args string) string {
		t.Helper()
		r := f.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+args+`}}`)
		if r.Status != http.StatusOK {
			t.Fatalf("%s answers %d %s", tool, r.Status, r.Body)
		}
		return r.Body
	}
	const message = "MCP server 'laptop' is unavailable and needs attention: it is a program, and this gateway starts none: use --allow-commands, or serve it over HTTP."
	if got := ask("upstream_servers", `{"operation":"list"}`); !strings.Contains(got, message) {
		t.Errorf("upstream_servers answers %s", got)
	}
	if got := ask("retrieve_tools", `{"query":"ask a question"}`); !strings.Contains(got, "deepwiki:ask_question") {
		t.Errorf("retrieve_tools answers %s", got)
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("the program was started")
	}
}
