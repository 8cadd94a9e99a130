package testclients

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/repo"
)

// rust runs the program in the folder rmcp. Its first build takes some minutes.
func rust(t testing.TB, j job) Transcript {
	t.Helper()
	if _, err := exec.LookPath("cargo"); err != nil {
		local.Missing(t, "the client in Rust needs cargo")
	}
	target := repo.Path(".tools/rmcp")
	cmd := exec.CommandContext(
		t.Context(),
		"cargo",
		"build",
		"--quiet",
		"--locked",
		"--target-dir",
		target,
	)
	cmd.Dir = dir() + "/rmcp"
	if out, err := cmd.CombinedOutput(); err != nil {
		local.Missing(t, fmt.Sprintf("the client in Rust cannot be built: %v\n%s", err, out))
	}
	out, err := execute(t, target+"/debug/rmcp-client", j.text(t))
	return transcript(t, j, out, err)
}

// mcpUse runs the Python client of mcp-use, in the environment that `make mcpuse` installs.
func mcpUse(t testing.TB, j job) Transcript {
	t.Helper()
	path := repo.Path(".tools/mcpuse/bin/python")
	if _, err := os.Stat(path); err != nil {
		local.Missing(t, "the client mcp-use is not installed: make mcpuse")
	}
	out, err := execute(
		t,
		"env",
		"MCP_USE_ANONYMIZED_TELEMETRY=false",
		path,
		"mcpuse.py",
		j.text(t),
	)
	return transcript(t, j, out, err)
}
