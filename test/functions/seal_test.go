package functions_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
)

const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	keyRead    = "secretsmanager GetSecretValue"
)

// session starts a session and returns its id, or "" if the answer has none.
func session(t *testing.T, f *lambdatest.Function) string {
	t.Helper()
	a := f.Send("/mcp", initialize)
	if a.Status != http.StatusOK {
		t.Fatalf("initialize: %d %s", a.Status, a.Body)
	}
	return a.Header.Get(mcp.HeaderSession)
}

// list sends a tools/list in a session.
func list(f *lambdatest.Function, id string) agenttest.Answer {
	return f.Send("/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, "MCP-Protocol-Version: 2025-11-25", mcp.HeaderSession+": "+id)
}

// A function reads the seal key when the first session starts. Sessions survive one replacement of
// the key. If a function cannot read the key, clients do not lose their sessions.
func (g suite) sealsSessions(t *testing.T) {
	w := g.fixture(t)
	w.Sync(t)
	w.proxy.Calls()
	f := w.Start(t, "mcp")
	f.Call("retrieve_tools", `{"query":"issues"}`)
	if n := w.proxy.Calls()[keyRead]; n != 0 {
		t.Errorf("a start and a search read the key %d times", n)
	}
	id := session(t, f)
	if n := w.proxy.Calls()[keyRead]; id == "" || n != 2 { // both versions of the key
		t.Fatalf("session %q, and the key was read %d times", id, n)
	}
	if a := list(w.Start(t, "mcp"), id); a.Status != http.StatusOK {
		t.Errorf("list in the session at another instance: %d %s", a.Status, a.Body)
	}
	w.ReplaceSealKey()
	if a := list(w.Start(t, "mcp"), id); a.Status != http.StatusOK {
		t.Errorf("session after one replacement of the key: %d %s", a.Status, a.Body)
	}

	w.proxy.Set("secretsmanager", lambdatest.Gone)
	blind := w.Start(t, "mcp")
	if none := session(t, blind); none != "" || !strings.Contains(blind.Output(), "no session begins") {
		t.Errorf("new session without the key: %q; log: %s", none, blind.Output())
	}
	a := list(blind, id)
	w.wantQuiet(t, a.Body)
	if a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
		t.Errorf("session of an unreadable key: %d %v %s", a.Status, a.Header, a.Body)
	}
	w.proxy.Set("secretsmanager", lambdatest.None)
	if a := list(blind, id); a.Status != http.StatusOK {
		t.Errorf("session after the key is readable again: %d %s", a.Status, a.Body)
	}

	w.ReplaceSealKey()
	if a := list(w.Start(t, "mcp"), id); a.Status != http.StatusNotFound {
		t.Errorf("session after two replacements of the key: %d %s", a.Status, a.Body)
	}
}
