//go:build unix

// Package operator runs all commands of an operator in a Unix shell. They start in an empty folder
// and serve a locked tool that an agent finds. Then they unlock the tool with a lock file, with and
// without a running gateway, and a change of the server locks it again. The tests can use any
// binary of the program, from a release or from this tree.
package operator

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// way is the script with the commands. It ends with an error at the first wrong result.
//
//go:embed testdata/way.sh
var way string

// Walk runs the script with the program at a path: once with a server that has a URL, and once with
// a server that the gateway starts.
func Walk(t *testing.T, program string) {
	t.Helper()
	bin := t.TempDir()
	program, err := filepath.Abs(program)
	require.OK(t, err)
	require.OK(t, os.Symlink(program, filepath.Join(bin, "portcullis")))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "others"), "github.com/portcullis-mcp/portcullis/test/operator/others")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the server and the agent: %v\n%s", err, out)
	}
	t.Run("url", func(t *testing.T) { walk(t, bin, "url") })
	t.Run("command", func(t *testing.T) { walk(t, bin, "command") })
}

func walk(t *testing.T, bin, kind string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", way)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir(),
		"KIND=" + kind, "GATE=" + local.Addr(t), "TICKETS=" + local.Addr(t),
	}
	// The processes that the script starts are in its process group, so they can be killed
	// together.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	log := &local.Buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	err := cmd.Run()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // usually no process is left
	if err != nil {
		t.Fatalf("the script failed with %v:\n%s", err, log)
	}
	t.Log(log)
}
