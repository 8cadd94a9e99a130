package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

func TestSyncSession(t *testing.T) {
	all := servers(upstreamtest.Fleet(t, map[string][]json.RawMessage{
		"files": {upstreamtest.Tool("get_file", "Read a file.", `{"readOnlyHint":true}`), upstreamtest.Tool("delete_file", "Delete a file.", "")},
		"gone":  {upstreamtest.Tool("ping", "Ping.", "")},
		"idle":  {upstreamtest.Tool("ping", "Ping.", "")},
	}, upstreamtest.Options{}))
	settings := map[string]string{"files": `, "approval": "manual"`, "idle": `, "enabled": false`}
	config := all.config(func(name string) string { return settings[name] }, "")
	dir, empty := t.TempDir(), t.TempDir()
	programtest.WriteConfig(t, dir, config)
	s := newTerminal(t, map[string]string{dir: "gate", empty: "empty"})
	s.must(0, "sync", "--dir", dir)
	all["gone"].Refuse()
	s.must(1, "sync", "--dir", dir)
	s.must(0, "sync", "--dir", dir, "--server", "files")
	s.must(1, "sync", "--dir", dir, "--server", "flies")

	p := start(t, dir)
	s.must(1, "sync", "--dir", dir, "--allow-commands")
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	programtest.WriteConfig(t, dir, `{"mcpServers": {"files": {"url": 1}}}`)
	s.must(1, "sync", "--dir", dir)
	s.must(1, "sync", "--dir", empty)
	s.must(1, "sync", "--url", "http://127.0.0.1:1")
	s.check("sync")
}

func TestTrySession(t *testing.T) {
	all := servers(upstreamtest.Fleet(t, map[string][]json.RawMessage{
		"files": {upstreamtest.Tool("get_file", "Read a file.", `{"readOnlyHint":true}`), upstreamtest.Tool("delete_file", "Delete a file.", ""), upstreamtest.Tool("format", "Format a file.", "")},
	}, upstreamtest.Options{}))
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, all.config(each(`, "disabled_tools": ["format"]`), ""))
	s := newTerminal(t, map[string]string{dir: "gate"})
	s.must(0, "sync", "--dir", dir)
	s.must(0, "try", "read a file", "--dir", dir)
	s.must(0, "try", "read a file", "--dir", dir, "--tiers", "read", "--path", "/mcp/readonly")
	s.must(0, "try", "weather on the moon", "--dir", dir)
	s.must(1, "try", "read a file", "--dir", dir, "--as", "token:ci")
	s.must(1, "try", " ", "--dir", dir)
	s.must(1, "try", "read a file", "--dir", dir, "--limit", "51")
	s.must(2, "try", "read a file", "--dir", dir, "--as", "token:ci", "--claims", "{}")
	tasks := filepath.Join(dir, "tasks.json")
	require.OK(t, os.WriteFile(tasks, []byte(`[{"task": "Read it", "searches": ["read a file"], "tools": ["files:get_file"]},
		{"task": "Read and format", "searches": ["read a file", "format a file"], "tools": ["files:get_file", "files:format"]},
		{"task": "Send it", "searches": ["weather on the moon"], "tools": ["mail:send"]}]`), 0o600))
	s.must(0, "try", "--eval", tasks, "--dir", dir, "--locked")
	s.must(1, "try", "read a file", "--eval", tasks, "--dir", dir)
	s.must(1, "try", "--dir", dir)
	require.OK(t, os.WriteFile(tasks, []byte(`[{"task": "Read it", "tools": ["get_file"]}]`), 0o600))
	s.must(1, "try", "--eval", tasks, "--dir", dir)
	s.check("try")
}
