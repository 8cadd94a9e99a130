package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/toolset"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The test runs the examples of the toolsets page with the demo. Each example prints the text that
// the page shows below it.
func TestToolsetsPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "toolsets.md"))
	require.OK(t, err)
	for _, name := range toolset.Headers() {
		if !strings.Contains(string(page), "`"+name) {
			t.Errorf("the page does not name %s", name)
		}
	}
	if block := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(string(page)); block == nil {
		t.Error("the page shows no config")
	} else if _, err := config.Parse([]byte(block[1])); err != nil {
		t.Errorf("the page's config: %v", err)
	}
	examples := regexp.MustCompile("(?s)```sh\n(.*?)```\n\n```text\n(.*?)\n```").FindAllStringSubmatch(string(page), -1)
	if len(examples) != strings.Count(string(page), "```sh\n") || len(examples) == 0 {
		t.Fatalf("%d of %d examples have an answer", len(examples), strings.Count(string(page), "```sh\n"))
	}
	p := start(t, t.TempDir(), "--demo")
	for _, x := range examples {
		script := strings.ReplaceAll(x[1], "http://127.0.0.1:8080", p.URL)
		out, err := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script).CombinedOutput()
		if err != nil || !strings.Contains(string(out), x[2]) {
			t.Errorf("%s\nprints no %s (%v):\n%s", script, x[2], err, out)
		}
	}
}
