package testclients

import (
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// npxServers contains six servers that npx installs, by the names of the servers.
var npxServers = map[string][]string{
	"everything": {"@modelcontextprotocol/server-everything@2026.8.31"},
	"files":      {"@modelcontextprotocol/server-filesystem@2026.8.31", "/"},
	"memory":     {"@modelcontextprotocol/server-memory@2026.8.31"},
	"thinking":   {"@modelcontextprotocol/server-sequential-thinking@2026.8.31"},
	"notion":     {"@notionhq/notion-mcp-server@2.5.2"},
	"context7":   {"@upstash/context7-mcp@4.1.1"},
}

// Six programs start at once from an empty npm cache. Until a server is available, its outcome says
// that it is starting. Then the same servers start again from this cache without a network.
func TestEmptyNPMCache(t *testing.T) {
	if lanes != "full" {
		t.Skip("it downloads six servers: make lanes without SMALL runs it")
	}
	npx, err := exec.LookPath("npx")
	if err != nil {
		local.Missing(t, "no npx")
	}
	env := map[string]string{"npm_config_cache": t.TempDir()}
	configure := func() string {
		entries := map[string]any{}
		for name, args := range npxServers {
			e := entry(npx, append([]string{"-y"}, args...)...)
			e["env"] = env
			entries[name] = e
		}
		data, err := json.Marshal(map[string]any{"mcpServers": entries})
		require.OK(t, err)
		return string(data)
	}
	for _, offline := range []string{"false", "true"} {
		env["npm_config_offline"] = offline
		folder := t.TempDir()
		programtest.WriteConfig(t, folder, configure())
		p := programtest.Start(t, folder, "--allow-commands")
		seen := map[string]bool{}
		isAvailable := func() bool {
			available := 0
			for name, s := range known(p) {
				switch out := s.Outcome; out.Status {
				case string(outcome.Available):
					available++
				case string(outcome.Transient):
					seen[out.Reason] = true
				default:
					t.Fatalf("offline=%s: %s is %s %s", offline, name, out.Status, out.Reason)
				}
			}
			return available == len(npxServers)
		}
		for range 4 { // each wait ends after two minutes; an installation may take longer
			if local.WaitFor(isAvailable) {
				break
			}
		}
		if !isAvailable() {
			t.Fatalf("offline=%s: not all servers are available: %+v", offline, known(p))
		}
		t.Logf("offline=%s: reasons before the servers were available: %v", offline, seen)
		delete(seen, outcome.ReasonStarting)
		if len(seen) > 0 {
			t.Errorf("offline=%s: before the servers were available, they were %v", offline, seen)
		}
		p.Stop()
	}
}
