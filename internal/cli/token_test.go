package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestTokenSession(t *testing.T) {
	_, config := ping(t)
	dir, bare, empty, access := t.TempDir(), t.TempDir(), t.TempDir(), programtest.Tokens()
	programtest.WriteConfig(t, dir, config(""))
	programtest.WriteConfig(t, bare, config(""))
	p := startWith(t, access.Env, dir)
	s := newTerminal(t, map[string]string{dir: "gate", bare: "laptop", empty: "empty", p.URL: "https://gate.example.com"})
	s.env[client.TokenVariable] = access.Admin
	at := []string{"--url", p.URL}
	on := func(args ...string) []string { return append(args, at...) }

	s.must(0, on("token")...)
	text := strings.TrimSpace(s.must(0, on("token", "make", "--name", "ci", "--servers", "s", "--days", "7")...))
	if !strings.HasPrefix(text, "pct_") || strings.Contains(text, "\n") {
		t.Errorf("token make prints %q, want only the token", text)
	}
	if got := p.Call("call_tool_read", map[string]any{"name": "s:ping"}, "Authorization: Bearer "+text); got.IsError {
		t.Errorf("the gateway refuses the token: %s", got.Raw)
	}
	s.must(0, on("token", "make", "--name", "deploy", "--servers", "*", "--tiers", "read,write", "--toolsets", "docs", "-o", "json")...)
	s.must(0, on("token", "list")...)
	s.must(0, on("token", "revoke", "ci")...)
	s.must(0, on("token", "list", "--all")...)

	s.must(1, on("token", "revoke", "ci")...)
	s.must(1, on("token", "make", "--name", "ci")...)
	s.must(1, on("token", "make", "--name", "no name", "--servers", "s", "--days", "400")...)
	s.must(2, on("token", "make", "--name", "ci", "--servers", "s", "--tiers", "root")...)
	s.must(0, on("token", "make", "--name", "twice", "--servers", "s", "--tiers", "none")...)
	s.must(0, on("token", "make", "--name", "twice", "--servers", "s")...)
	s.must(1, on("token", "revoke", "twice")...)
	s.must(1, "token", "list", "--dir", bare)
	s.must(1, "token", "list", "--dir", empty)
	s.env[client.TokenVariable] = text
	s.must(1, on("token", "list")...)
	s.check("token")
}

// Grants belong to a token's name. So token revoke prints the grants of the name, and the command
// that ends each.
func TestTokenRevokePrintsGrants(t *testing.T) {
	access := programtest.Tokens()
	p := startWithRequests(t, access.Env)
	p.Admin = access.Admin
	s := newTerminal(t, map[string]string{p.dir: "DIR", p.URL: "https://gate.example.com"})
	s.env[client.TokenVariable] = access.Admin
	at := []string{"--url", p.URL}
	do := func(args ...string) string { t.Helper(); return s.must(0, append(args, at...)...) }
	ann := strings.TrimSpace(do("token", "make", "--name", "ann", "--servers", "*", "--tiers", "destructive"))
	p.Call("request_access", map[string]any{"names": []string{"tickets:assign_ticket"}}, "Authorization: Bearer "+ann)
	id := s.id(at...)
	hash := regexp.MustCompile("[0-9a-f]{64}").FindString(do("requests", "show", id))
	do("requests", "allow", id, "--for", "8h", "--hash", hash)
	printed := do("token", "revoke", "ann")
	command := "portcullis requests revoke " + id + " --url " + p.URL
	if !strings.Contains(printed, "1 grant to token:ann did not end") || !strings.Contains(printed, command) {
		t.Errorf("token revoke prints %s, want %s", printed, command)
	}
	again := strings.TrimSpace(do("token", "make", "--name", "ann", "--servers", "*", "--tiers", "destructive"))
	call := func() bool {
		return p.Call("call_tool_destructive", map[string]any{"name": "tickets:assign_ticket"}, "Authorization: Bearer "+again).IsError
	}
	if call() {
		t.Error("a later token with the name does not have the grant, so the warning is wrong")
	}
	do(strings.Fields(command)[1:4]...)
	if !call() {
		t.Error("the command did not end the grant")
	}
	if printed := do("token", "revoke", "ann"); strings.Contains(printed, "grant") {
		t.Errorf("token revoke prints %s after the grant has ended", printed)
	}
}

func TestTokenThatCannotBePrinted(t *testing.T) {
	_, config := ping(t)
	dir, access := t.TempDir(), programtest.Tokens()
	programtest.WriteConfig(t, dir, config(""))
	p := startWith(t, access.Env, dir)
	env := quiet()
	env.getenv, env.stdout = bears(access.Admin), fullDisk{}
	err := run(t.Context(), []string{"token", "make", "--name", "ci", "--servers", "s", "--url", p.URL}, env)
	if err == nil || !strings.Contains(err.Error(), "is lost: portcullis token revoke ") {
		t.Errorf("token make with a full disk: %v", err)
	}
	require.OK(t, p.stop())
}
