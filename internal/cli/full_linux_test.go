package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// serve starts on a full disk and serves. It refuses only decisions, and calls that require an
// audit line. When the disk has space again, serve completes the failed work without a restart.
func TestServeOnFullDisk(t *testing.T) {
	t.Parallel()
	local.OnSmallDisk(t, "24m", func(disk string) { serveOnFullDisk(t, disk) })
}

func serveOnFullDisk(t *testing.T, disk string) {
	all := upstreamtest.Fleet(t, map[string][]json.RawMessage{
		"files": {upstreamtest.Tool("get_file", "Read a file.", `{"readOnlyHint":true}`)},
	}, upstreamtest.Options{})
	dir, filler := filepath.Join(disk, "gate"), filepath.Join(disk, "filler")
	config := func(rest string) string { return servers(all).config(each(""), rest) }
	call := func(p *program) string {
		return p.Call("call_tool_read", `{"name":"files:get_file","args":{}}`).Text
	}
	programtest.WriteConfig(t, dir, config(`, "audit": {"required": true}`))
	required := start(t, dir)
	if said := call(required); strings.Contains(said, "Nothing was called") {
		t.Fatal(said)
	}
	require.OK(t, required.stop())

	local.FillDisk(t, filler, 32<<20)
	required = start(t, dir)
	if said := call(required); !strings.Contains(said, "Nothing was called") {
		t.Errorf("a call that requires an audit line: %s", said)
	}
	require.OK(t, required.stop())

	require.OK(t, os.Remove(filler))
	programtest.WriteConfig(t, dir, config(""))
	local.FillDisk(t, filler, 32<<20)
	p := start(t, dir)
	if said := call(p); strings.Contains(said, "Nothing was called") || strings.Contains(said, "unavailable") {
		t.Errorf("a call that requires no audit line: %s", said)
	}
	if _, runs := folder.FindInfo(dir); runs || !strings.Contains(p.log.String(), "serve.json was not written") {
		t.Errorf("the log does not say that serve.json is missing:\n%s", p.log)
	}
	if err := run(t.Context(), []string{"status", "--url", p.URL, "--dir", dir}, quiet()); err != nil {
		t.Errorf("a command with --url: %v", err)
	}
	disable := func() (int, string) {
		a := p.Send("/admin/tools/files/get_file/disable", `{}`)
		return a.Status, a.Body
	}
	if status, said := disable(); status != http.StatusServiceUnavailable || !strings.Contains(said, "no space left on the disk") {
		t.Errorf("a decision: %d %s", status, said)
	}

	require.OK(t, os.Remove(filler))
	local.Until(t, "serve.json is written", func() bool { _, runs := folder.FindInfo(dir); return runs })
	if status, said := disable(); status != http.StatusOK {
		t.Errorf("a decision after the disk has space: %d %s", status, said)
	}
}

// A first start on a full disk fails with the reason, and leaves no file that a later start would
// use.
func TestFirstStartOnFullDisk(t *testing.T) {
	t.Parallel()
	local.OnSmallDisk(t, "1m", func(disk string) {
		dir, filler := filepath.Join(disk, "gate"), filepath.Join(disk, "filler")
		programtest.WriteConfig(t, dir, `{"mcpServers": {}}`)
		local.FillDisk(t, filler, 2<<20)
		err := run(t.Context(), []string{"serve", "--dir", dir, "--addr", "127.0.0.1:0"}, quiet())
		if err == nil || !strings.Contains(err.Error(), "no space left on device; the gateway was not started") {
			t.Errorf("serve = %v", err)
		}
		left, err := filepath.Glob(filepath.Join(dir, "*"))
		require.OK(t, err)
		if len(left) != 1 {
			t.Errorf("the folder has %v, want only the config", left)
		}
	})
}
