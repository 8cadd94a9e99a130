//go:build unix

package operator_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The commands in docs/first-tool.md print the lines that the page shows below each block. The test
// changes only the port and the source of the npx packages.
func TestFirstToolPage(t *testing.T) {
	modules := repo.Path("test/testclients/node_modules")
	if _, err := os.Stat(filepath.Join(modules, ".bin/mcp-inspector")); err != nil {
		local.Missing(t, "the MCP inspector is not installed: `make clients` installs it")
	}
	page, err := os.ReadFile(repo.Path("docs/first-tool.md"))
	require.OK(t, err)
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```\n\n```text\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != strings.Count(string(page), "```sh\n") || len(blocks) < 7 {
		t.Fatalf("only %d blocks have a text with their output", len(blocks))
	}
	addr := local.Addr(t)
	as := strings.NewReplacer(
		"127.0.0.1:8080", addr, "portcullis serve", "portcullis serve --addr "+addr,
		"npx -y @modelcontextprotocol/inspector@2.12.0", modules+"/.bin/mcp-inspector",
		`"npx", "args": ["-y", "@modelcontextprotocol/server-everything@2026.8.31"`, `"node", "args": ["`+modules+`/@modelcontextprotocol/server-everything/dist/index.js"`)
	dir, gateway := t.TempDir(), new(local.Buffer)
	for i, b := range blocks {
		script := as.Replace(b[1])
		if i > 0 {
			script = "cd my-gate\n" + script
		}
		read := func() string { return runBlock(t, dir, script) }
		if strings.HasPrefix(b[1], "portcullis serve") {
			background(t, dir, script, gateway)
			read = gateway.String
		}
		holds(t, b[1], as.Replace(b[2]), read)
	}
}

// holds checks that the output of a block contains each line. It waits for the output of a gateway,
// which keeps running.
func holds(t *testing.T, block, lines string, read func() string) {
	t.Helper()
	output, missing := "", ""
	complete := func() bool {
		output, missing = read(), ""
		for line := range strings.Lines(lines) {
			if !strings.Contains(output, strings.TrimSpace(line)) {
				missing = line
			}
		}
		return missing == ""
	}
	serves := strings.HasPrefix(block, "portcullis serve")
	printed := complete() || serves && local.WaitFor(complete)
	if !printed {
		t.Fatalf("%s\ndoes not print %s:\n%s", block, missing, output)
	}
}

// runBlock runs a block and returns its output. The block may fail, as a locked call does.
func runBlock(t *testing.T, dir, script string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "bash", "-uc", script)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, environment(), &out, &out
	_ = cmd.Run()
	return out.String()
}

// background runs a block, and all processes that it starts, until the test ends.
func background(t *testing.T, dir, script string, out *local.Buffer) {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), "bash", "-uc", script)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, environment(), out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		_ = cmd.Wait()
	})
}

func environment() []string {
	return append(os.Environ(), "PATH="+installed.bin+":"+os.Getenv("PATH"))
}
