package testclients

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// The whole gateway stands in front of the everything-server.
func TestConformance(t *testing.T) {
	findNode(t)
	url := startLocal(t, fmt.Sprintf(
		`{"mcpServers": {"everything": {"url": %q, "approval": "off"}}, "gateway": {"mode": "direct", "prefix": false}}`, Everything(t)))
	for _, set := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(set, func(t *testing.T) { Conformance(t, url, set) })
	}
}

// startLocal runs cmd/portcullis with a config and returns the address of its MCP endpoint,
// once its first sync is over.
func startLocal(t *testing.T, config string) string {
	t.Helper()
	folder := t.TempDir()
	require.OK(t, os.MkdirAll(filepath.Join(folder, "config"), 0o700))
	require.OK(t, os.WriteFile(filepath.Join(folder, "config", "mcp_config.json"), []byte(config), 0o600))
	bin := filepath.Join(folder, "portcullis")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "github.com/portcullis-mcp/portcullis/cmd/portcullis")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build cmd/portcullis: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), bin, "serve", "--dir", folder, "--addr", "127.0.0.1:0")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	var log strings.Builder
	cmd.Stderr = &log
	stdout, err := cmd.StdoutPipe()
	require.OK(t, err)
	require.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("log of the gateway:\n%s", log.String())
		}
	})
	endpoint := regexp.MustCompile(`http://\S+/mcp\b`)
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if url := endpoint.FindString(lines.Text()); url != "" {
			go func() { // a full pipe would stop the gateway
				for lines.Scan() {
				}
			}()
			return url
		}
	}
	t.Fatal("the gateway ended before it named its endpoint")
	return ""
}
