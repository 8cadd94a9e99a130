package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

func TestStatusSession(t *testing.T) {
	p := startWithRequests(t, nil)
	s := newTerminal(t, map[string]string{p.dir: "DIR", object12(t, p.dir): "VERSION"})
	at := []string{"--dir", p.dir}
	do := func(code int, args ...string) { t.Helper(); s.must(code, append(args, at...)...) }
	do(0, "status")
	p.Call("request_access", map[string]any{"names": []string{"tickets:assign_ticket"}, "note": "kim knows printers"})
	p.Ask(http.StatusOK, "/admin/stop", map[string]any{"agent": "token:ci", "reason": "key leaked"}, nil)
	programtest.WriteConfig(t, p.dir, `{"mcpServers": {"tickets": {"urll": "https://x.example/mcp"}}}`)
	p.Ask(http.StatusOK, "/admin/sync", `{}`, nil)
	do(0, "status")
	require.OK(t, p.stop())
	do(0, "status")
	dir := t.TempDir()
	s.names[dir] = "NEW"
	s.must(0, "init", dir)
	s.must(1, "status", "--dir", dir)
	s.must(1, "status", "--dir", filepath.Join(dir, "none"))
	s.must(1, "status", "--url", "http://127.0.0.1:1")
	s.must(2, "status", "-o", "xml")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.runIn(ended, "status", "--dir", dir)
	s.check("status")
}

// object12 returns the shown version of a folder's config.
func object12(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "config", "mcp_config.json"))
	require.OK(t, err)
	return short(object.Version(data))
}

func TestStatusJSON(t *testing.T) {
	all := upstreamtest.Fleet(t, map[string][]json.RawMessage{
		"files": {upstreamtest.Tool("get_file", "Read a file.", `{"readOnlyHint":true}`)},
	}, upstreamtest.Options{})
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, servers(all).config(each(""), ""))
	start(t, dir)
	var out bytes.Buffer
	env := quiet()
	env.stdout = &out
	require.OK(t, run(t.Context(), []string{"status", "--dir", dir, "-o", "json"}, env))
	var got struct {
		Gateway  place
		Health   decide.Health
		Config   decide.Config
		Servers  []decide.Server
		Requests admin.Requests
		Stops    decide.Stops
	}
	require.OK(t, json.Unmarshal(out.Bytes(), &got))
	if got.Health.Status != "ok" || len(got.Servers) != 1 || got.Servers[0].Tools.Callable != 1 || got.Gateway.URL == "" || !got.Requests.All || got.Stops.Stops == nil || got.Config.Rules == nil {
		t.Errorf("%s", out.Bytes())
	}
	env.stdout = fullDisk{}
	if err := run(t.Context(), []string{"status", "--dir", dir}, env); err == nil {
		t.Error("status succeeds although its output cannot be written")
	}
}

// A fullDisk accepts no bytes.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }
