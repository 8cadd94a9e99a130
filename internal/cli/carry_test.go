package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/stdiotest"
)

func TestCarrySession(t *testing.T) {
	dir := t.TempDir()
	self, env := stdiotest.Program(t, stdiotest.Legacy)
	npx := filepath.Join(dir, "npx")
	require.OK(t, os.Symlink(self, npx))
	version := func(v string) {
		config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
			"prog": map[string]any{"command": npx, "args": []string{"-y", "prog@" + v}, "env": env},
		}})
		require.OK(t, err)
		programtest.WriteConfig(t, dir, string(config))
	}
	version("1.2.3")
	d := &itemGateway{program: start(t, dir, "--actor", "kim", "--allow-commands"), terminal: newTerminal(t, map[string]string{dir: "DIR"})}
	d.do(0, "approvals", "carry", "prog")
	d.do(0, "block", "prog:flood")
	d.do(0, "disable", "prog:fork")
	version("1.2.4")
	d.Ask(200, "/admin/sync", `{}`, nil)
	d.do(0, "tools", "--status", "pending_approval", "--limit", "1")
	d.do(1, "approvals", "carry", "prog")
	d.do(1, "approvals", "carry", "prog", "--hash", "0123456789ab")
	d.do(2, "approvals", "carry")
	d.do(1, "approvals", "carry", "other")
	d.typed, d.stdin = true, "n\n"
	d.do(1, "approvals", "carry", "prog")
	d.typed = false
	hash := regexp.MustCompile(`hash of this list: (\w+)`).FindStringSubmatch(d.text.String())[1]
	d.do(0, "approvals", "carry", "prog", "--hash", hash, "--note", "read the release notes")
	d.do(0, "approvals", "carry", "prog")
	d.do(0, "undo", "prog:echo")
	d.do(0, "tools", "--server", "prog")
	d.check("carry")
	out, _ := d.run("status", "--dir", dir)
	line := `new version +prog: 1 unchanged definition \(approved in prog@1.2.3, now prog@1.2.4\); portcullis approvals carry prog`
	if !regexp.MustCompile(line).MatchString(out) {
		t.Errorf("status: %s", out)
	}
}
